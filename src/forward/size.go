// SPDX-License-Identifier: Apache-2.0

package forward

// Frames is the number of frames that a worker's UMEM needs so that no input
// ever finds the pool empty: all fill rings full, every output at its limit (a
// tx ring), and a burst in the worker's hands. Rings have ring slots each.
func Frames(inputs, outputs, ring int) int {
	return (inputs+outputs)*ring + burstSize
}

// NumWorkers is how many workers serve ports with these numbers of queues, at
// least one: every worker needs a queue of each port to send by. Receive queue n
// of a port is worker n%NumWorkers's, and worker w sends by queue w.
func NumWorkers(cpus int, queues ...int) int {
	n := cpus
	for _, q := range queues {
		n = min(n, q)
	}
	return max(n, 1)
}
