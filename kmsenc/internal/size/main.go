// Size is a program that uses DynamoDB and KMS, and with the build tag "sealed" kmsenc on top: size.sh compares the two. It does
// nothing when it runs.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"
)

func main() {
	if os.Getenv("KMSENC_SIZE") == "" {
		return
	}
	ctx := context.Background()
	db, keys := dynamodb.New(dynamodb.Options{}), kms.New(kms.Options{})
	db.UpdateItem(ctx, &dynamodb.UpdateItemInput{})
	db.GetItem(ctx, &dynamodb.GetItemInput{})
	db.DescribeTable(ctx, &dynamodb.DescribeTableInput{})
	keys.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{})
	keys.Decrypt(ctx, &kms.DecryptInput{})
	use(ctx, keys)
}
