// sqs-consumer as an application would use it: handlers that succeed, fail, are slow, take batches.
// Endpoint, credentials and queue name come from the environment; each check prints a line.
import assert from "node:assert/strict";
import {
  CreateQueueCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  SQSClient,
} from "@aws-sdk/client-sqs";
import { Consumer } from "sqs-consumer";

const DEADLINE_MS = 60_000;
const sqs = new SQSClient({ maxAttempts: 1 });
const name = process.env.CHECK_QUEUE;

async function create(suffix, Attributes) {
  const command = new CreateQueueCommand({ QueueName: `${name}-${suffix}`, Attributes });
  return (await sqs.send(command)).QueueUrl;
}

async function shown(QueueUrl) {
  const command = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] });
  return (await sqs.send(command)).Attributes;
}

async function until(condition, what) {
  const deadline = Date.now() + DEADLINE_MS;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, what);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function isEmpty(queue) {
  const { ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible } = await shown(queue);
  return ApproximateNumberOfMessages === "0" && ApproximateNumberOfMessagesNotVisible === "0";
}

// A consumer runs while `condition` is not met; all it complains about but its handlers is thrown.
async function consume(queueUrl, options, condition) {
  const consumer = Consumer.create({ queueUrl, sqs, waitTimeSeconds: 2, ...options });
  const complaints = [];
  consumer.on("error", (error) => complaints.push(error));
  consumer.on("processing_error", () => {});
  consumer.start();
  try {
    await until(condition, `consumer of ${queueUrl}`);
  } finally {
    const stopped = new Promise((resolve) => consumer.once("stopped", resolve));
    consumer.stop();
    await stopped;
  }
  assert.deepEqual(complaints, []);
}

async function fill(QueueUrl, count) {
  for (let first = 0; first < count; first += 10) {
    const Entries = Array.from({ length: Math.min(10, count - first) }, (_, at) => ({
      Id: `e${at}`,
      MessageBody: `${first + at}`,
    }));
    await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  }
}

function everyOne(count) {
  return Array.from({ length: count }, (_, at) => `${at}`);
}

async function messages() {
  const queue = await create("plain", {});
  await fill(queue, 100);
  const seen = [];
  const handleMessage = async (message) => {
    seen.push(message.Body);
    return message;
  };
  await consume(queue, { handleMessage, batchSize: 10 }, () => isEmpty(queue));
  assert.deepEqual(seen.sort((a, b) => a - b), everyOne(100));
  await sqs.send(new DeleteQueueCommand({ QueueUrl: queue }));
}

async function batches() {
  const queue = await create("batches", {});
  await fill(queue, 40);
  const seen = [];
  const handleMessageBatch = async (received) => {
    seen.push(...received.map(({ Body }) => Body));
    return received;
  };
  await consume(queue, { handleMessageBatch, batchSize: 10 }, () => isEmpty(queue));
  assert.deepEqual(seen.sort((a, b) => a - b), everyOne(40));
  await sqs.send(new DeleteQueueCommand({ QueueUrl: queue }));
}

// Two failures each, made visible at once; the third time all is well.
async function retries() {
  const queue = await create("retries", {});
  await fill(queue, 5);
  const counts = new Map();
  const handleMessage = async (message) => {
    counts.set(message.Body, (counts.get(message.Body) ?? 0) + 1);
    if (counts.get(message.Body) < 3) throw new Error("in vain");
    return message;
  };
  await consume(queue, { handleMessage, terminateVisibilityTimeout: true }, () => isEmpty(queue));
  assert.deepEqual([...counts.values()], [3, 3, 3, 3, 3]);
  await sqs.send(new DeleteQueueCommand({ QueueUrl: queue }));
}

async function deadLetters() {
  const dead = await create("dead", {});
  const deadLetterTargetArn = (await shown(dead)).QueueArn;
  const queue = await create("hopeless", {
    RedrivePolicy: JSON.stringify({ deadLetterTargetArn, maxReceiveCount: 2 }),
  });
  await sqs.send(new SendMessageCommand({ QueueUrl: queue, MessageBody: "hopeless" }));
  let runs = 0;
  const handleMessage = async () => {
    runs += 1;
    throw new Error("always");
  };
  const arrived = async () => (await shown(dead)).ApproximateNumberOfMessages === "1";
  await consume(queue, { handleMessage, terminateVisibilityTimeout: true }, arrived);
  assert.equal(runs, 2);
  const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl: dead }));
  assert.equal(Messages[0].Body, "hopeless");
  for (const QueueUrl of [queue, dead]) await sqs.send(new DeleteQueueCommand({ QueueUrl }));
}

// A handler that takes longer than the visibility timeout keeps its message by a heartbeat.
async function heartbeat() {
  const queue = await create("slow", { VisibilityTimeout: "3" });
  await fill(queue, 1);
  let runs = 0;
  const handleMessage = async (message) => {
    runs += 1;
    await new Promise((resolve) => setTimeout(resolve, 5_500));
    return message;
  };
  const options = { handleMessage, visibilityTimeout: 3, heartbeatInterval: 1 };
  await consume(queue, options, () => isEmpty(queue));
  assert.equal(runs, 1);
  await sqs.send(new DeleteQueueCommand({ QueueUrl: queue }));
}

const checks = { messages, batches, retries, "dead letters": deadLetters, heartbeat };
for (const [title, check] of Object.entries(checks)) {
  await check();
  console.log(`ok ${title}`);
}
sqs.destroy();
