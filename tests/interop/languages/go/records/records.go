// Package records has what the programs share: records that know their number, and how an error ends the process.
package records

import (
	"bytes"
	"fmt"
	"log"
	"strconv"
)

const digits, size = 12, 100

// Value is that of a record with this number.
func Value(n int) []byte {
	head := fmt.Appendf(nil, "%0*d", digits, n)
	return append(head, bytes.Repeat([]byte("."), size-digits)...)
}

// Print says that a record was read, or acknowledged.
func Print(partition int32, offset int64, value []byte) {
	fmt.Printf("%d %d %s\n", partition, offset, value[:digits])
}

// Number reads an argument.
func Number(text string) int {
	n, err := strconv.Atoi(text)
	Check(err)
	return n
}

// Check ends the process if there is an error.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
