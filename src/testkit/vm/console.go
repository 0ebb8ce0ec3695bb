// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"io"

	"fastpath/src/testkit/vm/job"
)

// keepLines is how many of the console's last lines a DiedError carries.
const keepLines = 40

// console receives what the VM prints, hands it on line by line, and picks
// out the result.
type console struct {
	out     io.Writer
	partial []byte
	last    []string
	result  *job.Result
}

// Write never fails: a reader that went away must not end the VM.
func (c *console) Write(p []byte) (int, error) {
	c.partial = append(c.partial, p...)
	for {
		i := bytes.IndexByte(c.partial, '\n')
		if i < 0 {
			return len(p), nil
		}
		c.line(string(bytes.ReplaceAll(c.partial[:i], []byte{'\r'}, nil)))
		c.partial = c.partial[i+1:]
	}
}

// flush hands on a last line without an end.
func (c *console) flush() {
	if len(c.partial) > 0 {
		c.Write([]byte{'\n'})
	}
}

func (c *console) line(s string) {
	if r, ok := job.ParseResult(s); ok {
		c.result = &r
	}
	if c.result != nil {
		return // the kernel says that it powers down
	}
	c.last = append(c.last, s)
	if len(c.last) > keepLines {
		c.last = c.last[1:]
	}
	io.WriteString(c.out, s+"\n")
}
