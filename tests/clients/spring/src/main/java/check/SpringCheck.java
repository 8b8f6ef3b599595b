// A Spring Boot application that sends by SqsTemplate and listens by @SqsListener: plain payloads,
// batches, a handler that fails, dead letters, FIFO order. Endpoint, credentials and queue names come
// from the environment; each check prints a line.
package check;

import io.awspring.cloud.sqs.annotation.SqsListener;
import io.awspring.cloud.sqs.operations.SqsTemplate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.messaging.support.MessageBuilder;
import software.amazon.awssdk.services.sqs.SqsAsyncClient;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;

@SpringBootApplication
public class SpringCheck {
  private static final long DEADLINE_NANOS = 60_000_000_000L;
  private static final String NAME = System.getenv("CHECK_QUEUE");
  private static final Map<String, Integer> RUNS = new ConcurrentHashMap<>();
  private static final List<Integer> LINE = Collections.synchronizedList(new ArrayList<>());

  public record Order(int number, String text) {}

  @SqsListener("${check.queue}-orders")
  public void order(Order order) {
    expect("grüße", order.text());
    count("order " + order.number());
  }

  @SqsListener("${check.queue}-batches")
  public void batch(List<String> bodies) {
    bodies.forEach(body -> count("batch " + body));
  }

  @SqsListener("${check.queue}-failing")
  public void failing(String body) {
    if (count("failing " + body) < 3) {
      throw new IllegalStateException("in vain");
    }
  }

  @SqsListener("${check.queue}-hopeless")
  public void hopeless(String body) {
    count("hopeless " + body);
    throw new IllegalStateException("always");
  }

  @SqsListener("${check.queue}-line.fifo")
  public void line(String body) {
    LINE.add(Integer.valueOf(body));
  }

  public static void main(String[] arguments) {
    try (SqsAsyncClient sqs = SqsAsyncClient.create()) {
      declare(sqs);
      try (var context = SpringApplication.run(SpringCheck.class, arguments)) {
        SqsTemplate template = context.getBean(SqsTemplate.class);
        messages(template);
        System.out.println("ok messages");
        batches(template);
        System.out.println("ok batches");
        retries(template);
        System.out.println("ok retries");
        deadLetters(template);
        System.out.println("ok dead letters");
        order(template);
        System.out.println("ok order");
      }
      sqs.listQueues(r -> r.queueNamePrefix(NAME)).join().queueUrls()
          .forEach(url -> sqs.deleteQueue(r -> r.queueUrl(url)).join());
    }
  }

  // Those with attributes that matter; the others are created by the listeners.
  private static void declare(SqsAsyncClient sqs) {
    String dead = sqs.createQueue(r -> r.queueName(NAME + "-dead")).join().queueUrl();
    String arn =
        sqs.getQueueAttributes(r -> r.queueUrl(dead).attributeNames(QueueAttributeName.QUEUE_ARN))
            .join().attributes().get(QueueAttributeName.QUEUE_ARN);
    String policy = "{\"deadLetterTargetArn\":\"" + arn + "\",\"maxReceiveCount\":2}";
    var quick = QueueAttributeName.VISIBILITY_TIMEOUT;
    sqs.createQueue(r -> r.queueName(NAME + "-failing").attributes(Map.of(quick, "1"))).join();
    var both = Map.of(quick, "1", QueueAttributeName.REDRIVE_POLICY, policy);
    sqs.createQueue(r -> r.queueName(NAME + "-hopeless").attributes(both)).join();
  }

  private static void messages(SqsTemplate template) {
    for (int number = 0; number < 50; number++) {
      Order order = new Order(number, "grüße");
      template.send(to -> to.queue(NAME + "-orders").payload(order).header("origin", "check"));
    }
    await(() -> total("order ") >= 50);
    IntStream.range(0, 50).forEach(number -> expect(1, RUNS.get("order " + number)));
  }

  private static void batches(SqsTemplate template) {
    var all =
        IntStream.range(0, 10).mapToObj(at -> MessageBuilder.withPayload("" + at).build()).toList();
    expect(10, template.sendMany(NAME + "-batches", all).successful().size());
    await(() -> total("batch ") >= 10);
    IntStream.range(0, 10).forEach(at -> expect(1, RUNS.get("batch " + at)));
  }

  private static void retries(SqsTemplate template) {
    template.send(NAME + "-failing", "one");
    await(() -> total("failing ") >= 3);
    expect(3, RUNS.get("failing one"));
  }

  private static void deadLetters(SqsTemplate template) {
    template.send(NAME + "-hopeless", "letter");
    var letter =
        template.receive(
            from -> from.queue(NAME + "-dead").pollTimeout(java.time.Duration.ofSeconds(20)),
            String.class);
    expect("letter", letter.orElseThrow().getPayload());
    expect(2, RUNS.get("hopeless letter"));
  }

  private static void order(SqsTemplate template) {
    for (int number = 0; number < 20; number++) {
      String body = "" + number;
      template.send(to -> to.queue(NAME + "-line.fifo").payload(body).messageGroupId("line"));
    }
    await(() -> LINE.size() >= 20);
    expect(IntStream.range(0, 20).boxed().toList(), List.copyOf(LINE));
  }

  private static int count(String what) {
    return RUNS.merge(what, 1, Integer::sum);
  }

  private static int total(String prefix) {
    return RUNS.entrySet().stream()
        .filter(run -> run.getKey().startsWith(prefix))
        .mapToInt(Map.Entry::getValue)
        .sum();
  }

  private static void await(BooleanSupplier condition) {
    long deadline = System.nanoTime() + DEADLINE_NANOS;
    while (!condition.getAsBoolean()) {
      expect(true, System.nanoTime() < deadline);
      try {
        Thread.sleep(50);
      } catch (InterruptedException error) {
        throw new IllegalStateException(error);
      }
    }
  }

  private static void expect(Object expected, Object found) {
    if (!expected.equals(found)) {
      throw new AssertionError("expected " + expected + ", found " + found);
    }
  }
}
