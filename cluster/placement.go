package cluster

import "github.com/cespare/xxhash/v2"

// Placement is by rendezvous: each pair of a key and a name has a weight, and of
// all names the one with the highest weight has the key. Names that come or go
// move only the keys that they get or had.
//
//	weight(key, name) = mix(key XOR XXH64(name))
//
// where the key of a partition p is mix(p + 1) and that of a text is
// mix(XXH64(text)), XXH64 has seed 0, and mix is the finaliser of SplitMix64
// (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// OOPSLA 2014; constants by Stafford, variant 13). Without it weights of
// similar names are not independent and shares are uneven. Names of equal weight
// are taken in the order of their bytes. All versions of the program place the
// same way: nodes of two versions would else take partitions from each other
// for ever.

// Assign names, for each of n partitions, the member that should own it; nil
// when there is none. Only node names count, so that a node that restarts gets
// back what it had.
//
// With few partitions plain rendezvous gives some nodes twice what others get.
// So no node gets more than a quarter above its share: the partitions choose in
// turn, each the first by weight that is not full (Mirrokni, Thorup and
// Zadimoghaddam, "Consistent Hashing with Bounded Loads", 2016). When members
// come or go that moves a few partitions more than the least possible.
func Assign(n int, members []Member) []Member {
	if len(members) == 0 {
		return nil
	}
	full := (5*n + 4*len(members) - 1) / (4 * len(members))
	has := make([]int, len(members))
	out := make([]Member, n)
	for p := range out {
		i := heaviest(mix(uint64(p)+1), len(members), func(i int) string { return members[i].Node }, func(i int) bool { return has[i] < full })
		has[i]++
		out[p] = members[i]
	}
	return out
}

// AssignSystem names the member that should own the system partition, whose key
// is mix(0); members is not empty.
func AssignSystem(members []Member) Member {
	i := heaviest(mix(0), len(members), func(i int) string { return members[i].Node }, func(int) bool { return true })
	return members[i]
}

// Rendezvous is the index of the name that has a key; -1: there is none.
func Rendezvous(key string, names []string) int {
	return heaviest(mix(xxhash.Sum64String(key)), len(names), func(i int) string { return names[i] }, func(int) bool { return true })
}

// heaviest is the index of the name with the highest weight for a key, among
// those that may have it; -1: there is none.
func heaviest(key uint64, n int, name func(int) string, may func(int) bool) int {
	best, most := -1, uint64(0)
	for i := range n {
		if !may(i) {
			continue
		}
		weight := mix(key ^ xxhash.Sum64String(name(i)))
		if best < 0 || weight > most || weight == most && name(i) < name(best) {
			best, most = i, weight
		}
	}
	return best
}

// mix is a bijection in which each bit of the input changes each bit of the
// output half of the time.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
