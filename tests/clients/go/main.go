// The checks of a real client with the AWS SDK for Go v2, as an application would write them.
// Endpoint, credentials and queue name come from the environment; each check prints a line.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

type check struct {
	sqs  *sqs.Client
	name string
	url  *string
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return value
}

func expect(wanted, found any) {
	if !reflect.DeepEqual(wanted, found) {
		log.Panicf("expected %v, found %v", wanted, found)
	}
}

func attribute(kind, value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String(kind), StringValue: aws.String(value)}
}

func (c *check) receive(ctx context.Context, seconds int32) []types.Message {
	return must(c.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    c.url,
		MaxNumberOfMessages:         10,
		WaitTimeSeconds:             seconds,
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	})).Messages
}

func (c *check) shown(ctx context.Context) map[string]string {
	return must(c.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl:       c.url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})).Attributes
}

func (c *check) lifeCycle(ctx context.Context) {
	found := must(c.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &c.name}))
	expect(*c.url, *found.QueueUrl)
	body := "a \"body\" <with> & 🐇\r\n"
	attributes := map[string]types.MessageAttributeValue{
		"text":  attribute("String", "grüße"),
		"count": attribute("Number", "7"),
		"bytes": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255}},
	}
	sent := must(c.sqs.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: c.url, MessageBody: &body, MessageAttributes: attributes,
	}))
	messages := c.receive(ctx, 0)
	expect(1, len(messages))
	message := messages[0]
	expect(*sent.MessageId, *message.MessageId)
	expect(body, *message.Body)
	expect(*sent.MD5OfMessageAttributes, *message.MD5OfMessageAttributes)
	expect(attributes, message.MessageAttributes)
	expect("1", message.Attributes["ApproximateReceiveCount"])
	must(c.sqs.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: c.url, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: 0,
	}))
	again := c.receive(ctx, 0)
	expect(1, len(again))
	expect(*sent.MessageId, *again[0].MessageId)
	must(c.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{
		QueueUrl: c.url, ReceiptHandle: again[0].ReceiptHandle,
	}))
	expect("0", c.shown(ctx)["ApproximateNumberOfMessagesNotVisible"])
}

func (c *check) batch(ctx context.Context) {
	var entries []types.SendMessageBatchRequestEntry
	for at, body := range []string{"first", "bad \x01", "third"} {
		id := fmt.Sprintf("e%d", at)
		entries = append(entries, types.SendMessageBatchRequestEntry{Id: &id, MessageBody: aws.String(body)})
	}
	answer := must(c.sqs.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: c.url, Entries: entries}))
	expect(2, len(answer.Successful))
	expect("e0 e2", *answer.Successful[0].Id+" "+*answer.Successful[1].Id)
	expect(1, len(answer.Failed))
	expect("e1 InvalidMessageContents", *answer.Failed[0].Id+" "+*answer.Failed[0].Code)
	var doomed []types.DeleteMessageBatchRequestEntry
	var bodies []string
	for _, message := range c.receive(ctx, 0) {
		bodies = append(bodies, *message.Body)
		doomed = append(doomed, types.DeleteMessageBatchRequestEntry{Id: message.Body, ReceiptHandle: message.ReceiptHandle})
	}
	expect([]string{"first", "third"}, bodies)
	deleted := must(c.sqs.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: c.url, Entries: doomed}))
	expect(2, len(deleted.Successful))
}

func (c *check) attributes(ctx context.Context) {
	changed := map[string]string{"MessageRetentionPeriod": "300"}
	must(c.sqs.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: c.url, Attributes: changed}))
	shown := c.shown(ctx)
	expect("120", shown["VisibilityTimeout"])
	expect("300", shown["MessageRetentionPeriod"])
	expect(true, strings.HasSuffix(shown["QueueArn"], ":"+c.name))
}

func (c *check) errors(ctx context.Context) {
	_, err := c.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(c.name + "-absent")})
	var absent *types.QueueDoesNotExist
	expect(true, errors.As(err, &absent))
	_, err = c.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: c.url, ReceiptHandle: aws.String("nonsense")})
	var refused *types.ReceiptHandleIsInvalid
	expect(true, errors.As(err, &refused))
}

func (c *check) longPoll(ctx context.Context) {
	started := time.Now()
	woken := make(chan []types.Message, 1)
	go func() { woken <- c.receive(ctx, 20) }()
	time.Sleep(300 * time.Millisecond)
	must(c.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: c.url, MessageBody: aws.String("wake up")}))
	messages := <-woken
	expect(1, len(messages))
	expect("wake up", *messages[0].Body)
	expect(true, time.Since(started) < 10*time.Second)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	settings := must(config.LoadDefaultConfig(ctx, config.WithRetryMaxAttempts(1)))
	client := sqs.NewFromConfig(settings)
	name := os.Getenv("CHECK_QUEUE")
	created := must(client.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName: &name, Attributes: map[string]string{"VisibilityTimeout": "120"},
	}))
	c := &check{client, name, created.QueueUrl}
	for _, one := range []struct {
		title string
		run   func(context.Context)
	}{
		{"life cycle", c.lifeCycle},
		{"batch", c.batch},
		{"attributes", c.attributes},
		{"errors", c.errors},
		{"long poll", c.longPoll},
	} {
		one.run(ctx)
		fmt.Println("ok", one.title)
	}
	must(client.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: c.url}))
}
