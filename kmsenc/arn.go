package kmsenc

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// keyARN is the name of exactly one KMS key. An alias is none: whoever may move it would decide with which key we decrypt.
type keyARN struct {
	text                           string
	partition, region, account, id string
}

var (
	errNoARN = errors.New("is no ARN of a KMS key, such as arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab")
	errAlias = errors.New("is an alias, which can be pointed at another key: give the key's own ARN")
	arnForm  = regexp.MustCompile(`^arn:([a-z][a-z0-9-]*):kms:([a-z0-9-]+):([0-9]{12}):key/([A-Za-z0-9-]{1,128})$`)
)

// parseARN takes the ARN of a key in any partition, and nothing else. Errors do not quote it.
func parseARN(text string) (keyARN, error) {
	if strings.HasPrefix(text, "alias/") || strings.Contains(text, ":alias/") {
		return keyARN{}, errAlias
	}
	m := arnForm.FindStringSubmatch(text)
	if m == nil {
		return keyARN{}, errNoARN
	}
	return keyARN{text: text, partition: m[1], region: m[2], account: m[3], id: m[4]}, nil
}

// hint is how an envelope tells which of the allowed keys wrapped its data key. Keys of one multi-Region set have the same
// hint, so that each opens what the others sealed (AWS Encryption SDK specification, aws-kms-mrk-match-for-decrypt: all but the
// Region is equal, and both are multi-Region keys). It is not authenticated: it only chooses among keys that are allowed.
func (k keyARN) hint() (h [hintSize]byte) {
	region := k.region
	if strings.HasPrefix(k.id, "mrk-") {
		region = ""
	}
	b := []byte("kmsenc/1 hint\x00")
	for _, part := range [...]string{k.partition, k.account, region, k.id} {
		b = appendPart(b, part)
	}
	sum := sha256.Sum256(b)
	copy(h[:], sum[:])
	return h
}

// allowed are the keys that may open, by hint.
func allowed(sealing keyARN, retired []string) (map[[hintSize]byte]keyARN, error) {
	keys := map[[hintSize]byte]keyARN{sealing.hint(): sealing}
	for i, text := range retired {
		k, err := parseARN(text)
		if err != nil {
			return nil, fmt.Errorf("Options.Retired[%d] %w", i, err)
		}
		if _, twice := keys[k.hint()]; twice {
			return nil, fmt.Errorf("Options.Retired[%d] is the sealing key, or is named twice", i)
		}
		keys[k.hint()] = k
	}
	return keys, nil
}
