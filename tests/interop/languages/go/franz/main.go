// franz-go: a producer, a member of a group, and the loop of transactions.
//
// None of them handles an error: it ends, and whoever started it starts it again. tests/clients/transforms says why that is
// enough for the loop.
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	. "languages/records"
)

func main() {
	verb, arguments := os.Args[1], os.Args[2:]
	seeds := kgo.SeedBrokers(strings.Split(arguments[0], ",")...)
	switch verb {
	case "produce":
		produce(seeds, arguments[1], Number(arguments[2]), Number(arguments[3]))
	case "member":
		member(seeds, arguments[1], arguments[2], arguments[3])
	case "transform":
		transform(seeds, arguments[1], arguments[2], arguments[3], arguments[4])
	}
}

// produce writes numbered records to every partition, and prints where each was acknowledged.
func produce(seeds kgo.Opt, topic string, partitions, each int) {
	client, err := kgo.NewClient(seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	Check(err)
	for n := range each {
		for partition := range partitions {
			record := &kgo.Record{Topic: topic, Partition: int32(partition), Value: Value(n)}
			client.Produce(context.Background(), record, func(done *kgo.Record, err error) {
				Check(err)
				Print(done.Partition, done.Offset, done.Value)
			})
		}
		time.Sleep(time.Millisecond)
	}
	Check(client.Flush(context.Background()))
	client.Close()
}

// member subscribes, by the protocol "classic" or "consumer", and prints each record that it reads.
func member(seeds kgo.Opt, topic, group, protocol string) {
	options := []kgo.Opt{
		seeds,
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.AutoCommitInterval(200 * time.Millisecond),
	}
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	client, err := kgo.NewClient(options...)
	Check(err)
	for {
		fetches := client.PollFetches(context.Background())
		fetches.EachError(func(topic string, partition int32, err error) { log.Print(topic, partition, err) })
		fetches.EachRecord(func(record *kgo.Record) { Print(record.Partition, record.Offset, record.Value) })
	}
}

// transform reads records, writes others and commits what was read, all in one transaction.
func transform(seeds kgo.Opt, source, target, group, name string) {
	session, err := kgo.NewGroupTransactSession(
		seeds,
		kgo.TransactionalID(name),
		kgo.ConsumerGroup(group),
		kgo.InstanceID(name),
		kgo.ConsumeTopics(source),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	Check(err)
	for {
		fetches := session.PollRecords(context.Background(), 20)
		Check(fetches.Err())
		if fetches.Empty() {
			continue
		}
		Check(session.Begin())
		sent := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(read *kgo.Record) {
			record := &kgo.Record{Topic: target, Partition: read.Partition, Value: read.Value}
			session.Produce(context.Background(), record, sent.Promise())
		})
		// Where the group rebalances meanwhile, the transaction is aborted and these records are read again.
		_, err := session.End(context.Background(), sent.Err() == nil)
		Check(err)
	}
}
