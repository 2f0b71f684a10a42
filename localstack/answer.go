package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"
)

const (
	answerLimit = 2 * time.Second       // for one call
	answerPause = 50 * time.Millisecond // between two calls that were not answered
)

// answers makes one real, signed call of the service. A port that is open, or a health page, does not count.
func (s service) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	test := credentials.NewStaticCredentialsProvider("test", "test", "")
	var err error
	switch s.Kind {
	case "DynamoDB":
		client := dynamodb.New(dynamodb.Options{
			BaseEndpoint: aws.String(s.URL), Region: "eu-central-1", Credentials: test, Retryer: aws.NopRetryer{},
		})
		_, err = client.ListTables(ctx, &dynamodb.ListTablesInput{Limit: aws.Int32(1)})
	case "KMS":
		client := kms.New(kms.Options{
			BaseEndpoint: aws.String(s.URL), Region: "eu-central-1", Credentials: test, Retryer: aws.NopRetryer{},
		})
		_, err = client.ListKeys(ctx, &kms.ListKeysInput{Limit: aws.Int32(1)})
	default:
		err = fmt.Errorf("unknown kind of service %q", s.Kind)
	}
	return err
}

// await waits until all services answer. It ends early when ctx does, or when gone is closed: then the process behind
// them has ended.
func await(ctx context.Context, services []service, gone <-chan struct{}, limit time.Duration) error {
	late := time.After(limit)
	for _, s := range services {
		for {
			err := s.answers(ctx)
			if err == nil {
				break
			}
			select {
			case <-gone:
				return errEnded
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-late:
				return fmt.Errorf("no answer from %s within %v: %w", s.Kind, limit, err)
			case <-time.After(answerPause):
			}
		}
	}
	return nil
}
