// The checks of a real client with the AWS SDK for Java v2, as an application would write them.
// Endpoint, credentials and queue name come from the environment; each check prints a line.

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.DeleteMessageBatchRequestEntry;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.MessageAttributeValue;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueDoesNotExistException;
import software.amazon.awssdk.services.sqs.model.ReceiptHandleIsInvalidException;
import software.amazon.awssdk.services.sqs.model.SendMessageBatchRequestEntry;
import software.amazon.awssdk.services.sqs.model.SqsException;

public final class Check {
  private final SqsClient sqs;
  private final String name;
  private final String url;

  private Check(SqsClient sqs, String name) {
    this.sqs = sqs;
    this.name = name;
    Map<QueueAttributeName, String> chosen = Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "120");
    this.url = sqs.createQueue(r -> r.queueName(name).attributes(chosen)).queueUrl();
  }

  public static void main(String[] unused) throws Exception {
    try (SqsClient sqs = SqsClient.create()) {
      Check check = new Check(sqs, System.getenv("CHECK_QUEUE"));
      check.lifeCycle();
      System.out.println("ok life cycle");
      check.batch();
      System.out.println("ok batch");
      check.attributes();
      System.out.println("ok attributes");
      check.errors();
      System.out.println("ok errors");
      check.longPoll();
      System.out.println("ok long poll");
      sqs.deleteQueue(r -> r.queueUrl(check.url));
    }
  }

  private void lifeCycle() {
    expect(url, sqs.getQueueUrl(r -> r.queueName(name)).queueUrl());
    Map<String, MessageAttributeValue> attributes =
        Map.of(
            "text", attribute("String").stringValue("grüße").build(),
            "count", attribute("Number").stringValue("7").build(),
            "bytes", attribute("Binary").binaryValue(bytes(0, 255)).build());
    String body = "a \"body\" <with> & 🐇\r\n";
    var sent = sqs.sendMessage(r -> r.queueUrl(url).messageBody(body).messageAttributes(attributes));
    Message message =
        sqs.receiveMessage(
                r ->
                    r.queueUrl(url)
                        .messageAttributeNames("All")
                        .messageSystemAttributeNames(MessageSystemAttributeName.ALL))
            .messages()
            .get(0);
    expect(sent.messageId(), message.messageId());
    expect(body, message.body());
    expect(sent.md5OfMessageAttributes(), message.md5OfMessageAttributes());
    expect(attributes, message.messageAttributes());
    expect("1", message.attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT));
    String handle = message.receiptHandle();
    sqs.changeMessageVisibility(r -> r.queueUrl(url).receiptHandle(handle).visibilityTimeout(0));
    Message again = receive(0).get(0);
    expect(sent.messageId(), again.messageId());
    sqs.deleteMessage(r -> r.queueUrl(url).receiptHandle(again.receiptHandle()));
    expect("0", shown().get(QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES_NOT_VISIBLE));
  }

  private void batch() {
    List<SendMessageBatchRequestEntry> entries =
        List.of(entry("e0", "first"), entry("e1", "bad \u0001"), entry("e2", "third"));
    var answer = sqs.sendMessageBatch(r -> r.queueUrl(url).entries(entries));
    expect(List.of("e0", "e2"), answer.successful().stream().map(one -> one.id()).toList());
    expect(List.of("e1"), answer.failed().stream().map(one -> one.id()).toList());
    expect("InvalidMessageContents", answer.failed().get(0).code());
    List<Message> messages = receive(0);
    expect(List.of("first", "third"), messages.stream().map(Message::body).toList());
    List<DeleteMessageBatchRequestEntry> doomed =
        messages.stream()
            .map(
                message ->
                    DeleteMessageBatchRequestEntry.builder()
                        .id(message.body())
                        .receiptHandle(message.receiptHandle())
                        .build())
            .toList();
    var deleted = sqs.deleteMessageBatch(r -> r.queueUrl(url).entries(doomed));
    expect(List.of("first", "third"), deleted.successful().stream().map(one -> one.id()).toList());
  }

  private void attributes() {
    Map<QueueAttributeName, String> changed =
        Map.of(QueueAttributeName.MESSAGE_RETENTION_PERIOD, "300");
    sqs.setQueueAttributes(r -> r.queueUrl(url).attributes(changed));
    expect("120", shown().get(QueueAttributeName.VISIBILITY_TIMEOUT));
    expect("300", shown().get(QueueAttributeName.MESSAGE_RETENTION_PERIOD));
    expect(true, shown().get(QueueAttributeName.QUEUE_ARN).endsWith(":" + name));
  }

  private void errors() {
    expectFailure(
        QueueDoesNotExistException.class,
        () -> sqs.getQueueUrl(r -> r.queueName(name + "-absent")));
    expectFailure(
        ReceiptHandleIsInvalidException.class,
        () -> sqs.deleteMessage(r -> r.queueUrl(url).receiptHandle("nonsense")));
  }

  private void longPoll() throws Exception {
    long started = System.nanoTime();
    CompletableFuture<List<Message>> waiting = CompletableFuture.supplyAsync(() -> receive(20));
    TimeUnit.MILLISECONDS.sleep(300);
    sqs.sendMessage(r -> r.queueUrl(url).messageBody("wake up"));
    expect("wake up", waiting.get(25, TimeUnit.SECONDS).get(0).body());
    double seconds = (System.nanoTime() - started) / 1e9;
    expect(true, seconds >= 0.3 && seconds < 10);
  }

  private List<Message> receive(int seconds) {
    return sqs.receiveMessage(
            r -> r.queueUrl(url).maxNumberOfMessages(10).waitTimeSeconds(seconds))
        .messages();
  }

  private Map<QueueAttributeName, String> shown() {
    return sqs.getQueueAttributes(r -> r.queueUrl(url).attributeNames(QueueAttributeName.ALL))
        .attributes();
  }

  private static MessageAttributeValue.Builder attribute(String type) {
    return MessageAttributeValue.builder().dataType(type);
  }

  private static SdkBytes bytes(int... values) {
    byte[] raw = new byte[values.length];
    for (int at = 0; at < values.length; at++) {
      raw[at] = (byte) values[at];
    }
    return SdkBytes.fromByteArray(raw);
  }

  private static SendMessageBatchRequestEntry entry(String id, String body) {
    return SendMessageBatchRequestEntry.builder().id(id).messageBody(body).build();
  }

  private static void expect(Object expected, Object found) {
    if (!expected.equals(found)) {
      throw new AssertionError("expected " + expected + ", found " + found);
    }
  }

  private static void expectFailure(Class<? extends SqsException> kind, Runnable call) {
    try {
      call.run();
    } catch (SqsException error) {
      expect(kind, error.getClass());
      return;
    }
    throw new AssertionError("no " + kind.getSimpleName());
  }
}
