// The checks of a real client with the AWS SDK for JavaScript v3, as an application would write
// them. Endpoint, credentials and queue name come from the environment; each check prints a line.
import assert from "node:assert/strict";
import {
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  DeleteMessageCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  QueueDoesNotExist,
  ReceiptHandleIsInvalid,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  SetQueueAttributesCommand,
  ChangeMessageVisibilityCommand,
  SQSClient,
} from "@aws-sdk/client-sqs";

const sqs = new SQSClient({ maxAttempts: 1 });
const QueueName = process.env.CHECK_QUEUE;
const { QueueUrl } = await sqs.send(
  new CreateQueueCommand({ QueueName, Attributes: { VisibilityTimeout: "120" } }),
);

async function receive(members = {}) {
  const command = new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, ...members });
  return (await sqs.send(command)).Messages ?? [];
}

async function attributes() {
  const command = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] });
  return (await sqs.send(command)).Attributes;
}

async function lifeCycle() {
  assert.equal((await sqs.send(new GetQueueUrlCommand({ QueueName }))).QueueUrl, QueueUrl);
  const MessageAttributes = {
    text: { DataType: "String", StringValue: "grüße" },
    count: { DataType: "Number", StringValue: "7" },
    bytes: { DataType: "Binary", BinaryValue: new Uint8Array([0, 255]) },
  };
  const MessageBody = 'a "body" <with> & 🐇\r\n';
  const sent = await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody, MessageAttributes }));
  const [message] = await receive({
    MessageAttributeNames: ["All"],
    MessageSystemAttributeNames: ["All"],
  });
  assert.equal(message.MessageId, sent.MessageId);
  assert.equal(message.Body, MessageBody);
  assert.equal(message.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
  assert.deepEqual(message.MessageAttributes, MessageAttributes);
  assert.equal(message.Attributes.ApproximateReceiveCount, "1");
  const { ReceiptHandle } = message;
  await sqs.send(
    new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 }),
  );
  const [again] = await receive();
  assert.equal(again.MessageId, sent.MessageId);
  await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: again.ReceiptHandle }));
  assert.equal((await attributes()).ApproximateNumberOfMessagesNotVisible, "0");
}

async function batch() {
  const bodies = ["first", "bad \u0001", "third"];
  const Entries = bodies.map((MessageBody, at) => ({ Id: `e${at}`, MessageBody }));
  const answer = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  assert.deepEqual(answer.Successful.map(({ Id }) => Id), ["e0", "e2"]);
  assert.deepEqual(answer.Failed.map(({ Id, Code }) => [Id, Code]), [
    ["e1", "InvalidMessageContents"],
  ]);
  const messages = await receive();
  assert.deepEqual(messages.map(({ Body }) => Body), ["first", "third"]);
  const deleted = await sqs.send(
    new DeleteMessageBatchCommand({
      QueueUrl,
      Entries: messages.map(({ ReceiptHandle }, at) => ({ Id: `d${at}`, ReceiptHandle })),
    }),
  );
  assert.deepEqual(deleted.Successful.map(({ Id }) => Id), ["d0", "d1"]);
}

async function queueAttributes() {
  await sqs.send(
    new SetQueueAttributesCommand({ QueueUrl, Attributes: { MessageRetentionPeriod: "300" } }),
  );
  const shown = await attributes();
  assert.equal(shown.VisibilityTimeout, "120");
  assert.equal(shown.MessageRetentionPeriod, "300");
  assert.ok(shown.QueueArn.endsWith(`:${QueueName}`));
}

async function errors() {
  const absent = `${QueueName}-absent`;
  await assert.rejects(
    sqs.send(new GetQueueUrlCommand({ QueueName: absent })),
    (error) => error instanceof QueueDoesNotExist && error.$metadata.httpStatusCode === 400,
  );
  await assert.rejects(
    sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: "nonsense" })),
    (error) => error instanceof ReceiptHandleIsInvalid,
  );
}

async function longPoll() {
  const started = performance.now();
  const waiting = receive({ WaitTimeSeconds: 20 });
  await new Promise((resolve) => setTimeout(resolve, 300));
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "wake up" }));
  const [message] = await waiting;
  assert.equal(message.Body, "wake up");
  const seconds = (performance.now() - started) / 1000;
  assert.ok(seconds >= 0.3 && seconds < 10, `${seconds} s`);
}

const checks = {
  "life cycle": lifeCycle,
  batch,
  attributes: queueAttributes,
  errors,
  "long poll": longPoll,
};
for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(`ok ${name}`);
}
await sqs.send(new DeleteQueueCommand({ QueueUrl }));
sqs.destroy();
