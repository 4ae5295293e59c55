package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"mpps/internal/strictjson"
)

// Every line is a JSON object whose last member is "sum": the first 8 bytes, in hexadecimal, of the SHA-256 of the
// previous line's sum (nothing for the first line) followed by this line up to the comma before "sum". The chain
// detects damage and removed or swapped lines. It does not protect against somebody who may write the file.
const sumMember = `,"sum":"`

const sumLength = 16 // hexadecimal digits

func sum(previous string, content []byte) string {
	h := sha256.New()
	h.Write([]byte(previous))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil)[:sumLength/2])
}

// encodeLine writes a header or record as a line, and returns the line's sum.
func encodeLine[T Header | Record](v T, previous string) (line []byte, lineSum string, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, "", err
	}
	text = text[:len(text)-1]
	lineSum = sum(previous, text)
	text = append(text, sumMember...)
	text = append(text, lineSum...)
	return append(text, `"}`+"\n"...), lineSum, nil
}

// decodeLine reads a line without its newline.
func decodeLine[T Header | Record](line []byte, previous string, into *T) (lineSum string, err error) {
	tail := len(sumMember) + sumLength + len(`"}`)
	if len(line) <= tail || line[0] != '{' || !bytes.HasSuffix(line, []byte(`"}`)) {
		return "", errors.New("not a journal line")
	}
	content := line[:len(line)-tail]
	if !bytes.HasPrefix(line[len(content):], []byte(sumMember)) {
		return "", errors.New("no sum at its end")
	}
	found := string(line[len(content)+len(sumMember) : len(line)-len(`"}`)])
	if want := sum(previous, content); found != want {
		return "", fmt.Errorf("sum is %q, expected %s: the line, or one before it, was damaged or changed", found, want)
	}
	if err := strictjson.Unmarshal(line, into); err != nil {
		return "", err
	}
	return found, nil
}
