// Sarama: a producer, a member of a group, and the loop of transactions.
//
// None of them handles an error: it ends, and whoever started it starts it again. tests/clients/transforms says why that is
// enough for the loop.
package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"

	. "languages/records"
)

func main() {
	verb, arguments := os.Args[1], os.Args[2:]
	brokers := strings.Split(arguments[0], ",")
	switch verb {
	case "produce":
		produce(brokers, arguments[1], Number(arguments[2]), Number(arguments[3]))
	case "member":
		member(brokers, arguments[1], arguments[2])
	case "transform":
		transform(brokers, arguments[1], arguments[2], arguments[3], arguments[4])
	}
}

// produce writes numbered records to every partition, and prints where each was acknowledged.
func produce(brokers []string, topic string, partitions, each int) {
	config := sarama.NewConfig()
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Retry.Max = 100
	producer, err := sarama.NewSyncProducer(brokers, config)
	Check(err)
	for n := range each {
		for partition := range partitions {
			value := Value(n)
			message := &sarama.ProducerMessage{Topic: topic, Partition: int32(partition), Value: sarama.ByteEncoder(value)}
			_, offset, err := producer.SendMessage(message)
			Check(err)
			Print(int32(partition), offset, value)
		}
	}
	Check(producer.Close())
}

// member subscribes, and prints each record that it reads.
func member(brokers []string, topic, group string) {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	subscribe(brokers, topic, group, config, func(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) {
		for message := range claim.Messages() {
			Print(message.Partition, message.Offset, message.Value)
			session.MarkMessage(message, "")
		}
	})
}

// transform reads records, writes others and commits what was read, all in one transaction.
func transform(brokers []string, source, target, group, name string) {
	config := sarama.NewConfig()
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.ID = name
	config.Consumer.Group.InstanceId = name
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	producer, err := sarama.NewSyncProducer(brokers, config)
	Check(err)
	var one sync.Mutex // transaction at a time; each partition is read by a goroutine of its own
	subscribe(brokers, source, group, config, func(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) {
		metadata := sarama.NewConsumerGroupMetadataFromSession(session, group, &name)
		for message := range claim.Messages() {
			one.Lock()
			if session.Context().Err() == nil { // else it is somebody else's by now
				Check(producer.BeginTxn())
				var sent []*sarama.ProducerMessage
				for ; message != nil; message = waiting(claim, len(sent)) {
					sent = append(sent, &sarama.ProducerMessage{
						Topic: target, Partition: message.Partition, Value: sarama.ByteEncoder(message.Value),
					})
					Check(producer.AddMessageToTxnWithGroupMetadata(message, metadata, nil))
				}
				Check(producer.SendMessages(sent))
				Check(producer.CommitTxn())
			}
			one.Unlock()
		}
	})
}

// waiting is the next message, if there is one now and it goes into this transaction.
func waiting(claim sarama.ConsumerGroupClaim, have int) *sarama.ConsumerMessage {
	if have == 20 {
		return nil
	}
	select {
	case message := <-claim.Messages():
		return message
	default:
		return nil
	}
}

type handler func(sarama.ConsumerGroupSession, sarama.ConsumerGroupClaim)

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (handle handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	handle(session, claim)
	return nil
}

// subscribe hands what comes to handle, and joins anew after every rebalance.
func subscribe(brokers []string, topic, group string, config *sarama.Config, handle handler) {
	member, err := sarama.NewConsumerGroup(brokers, group, config)
	Check(err)
	for {
		err := member.Consume(context.Background(), []string{topic}, handle)
		if !errors.Is(err, sarama.ErrRebalanceInProgress) {
			Check(err)
		}
	}
}
