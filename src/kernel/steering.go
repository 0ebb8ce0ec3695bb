// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// steered is how many CPUs receive packet steering (RPS) spreads a link's
// packets over; dir is its folder in sysfs. 0: it is off, or not built in.
func steered(dir string) (cpus int) {
	files, _ := filepath.Glob(filepath.Join(dir, "queues", "rx-*", "rps_cpus"))
	var all []uint32
	for _, file := range files {
		mask, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for i, word := range cpuMask(string(mask)) {
			if i == len(all) {
				all = append(all, 0)
			}
			all[i] |= word
		}
	}
	for _, word := range all {
		cpus += bits.OnesCount32(word)
	}
	return cpus
}

// cpuMask reads a mask of CPUs as sysfs prints it, 32 of them a word in hex,
// the last ones first (lib/vsprintf.c, bitmap_string). The first word comes first here.
func cpuMask(text string) []uint32 {
	words := strings.Split(strings.TrimSpace(text), ",")
	mask := make([]uint32, 0, len(words))
	for i := len(words) - 1; i >= 0; i-- {
		word, err := strconv.ParseUint(words[i], 16, 32)
		if err != nil {
			return nil
		}
		mask = append(mask, uint32(word))
	}
	return mask
}
