package cluster

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestMemberOnTheWire(t *testing.T) {
	m := incarnation("node-1")
	b, err := encodeMember(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeMember(memberName(m), b)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v came back as %+v, %v", m, got, err)
	}
	later := strings.Replace(string(b), `{`, `{"zone":"eu","r":"gateway,oracle",`, 1) // of a later version
	later = strings.Replace(later, `"r":"gateway,scheduler,worker",`, "", 1)
	if got, err = decodeMember(memberName(m), []byte(later)); err != nil || !got.Roles.Has(Gateway) || !got.Roles.Has("oracle") {
		t.Errorf("a later version's %s: %+v, %v", later, got, err)
	}
}

// TestForgedMembers: nothing that another node says panics or is taken when it
// is no member.
func TestForgedMembers(t *testing.T) {
	m := incarnation("a")
	id := m.Incarnation.String()
	good := `{"s":1,"a":"h:1","r":"worker"}`
	for name, about := range map[string]string{
		"":                                  good,
		"a":                                 good,
		"a/":                                good,
		"/" + id:                            good,
		"a/" + id[1:]:                       good,
		"a/{" + id + "}":                    good,
		"a/" + strings.ToUpper(id):          good,
		"a/" + uuid.Nil.String():            good,
		"a/b/" + id:                         good,
		"a\x00/" + id:                       good,
		strings.Repeat("a", 129) + "/" + id: good,
		"1/" + id:                           ``,
		"2/" + id:                           `{}`,
		"3/" + id:                           `{"s":-1,"a":"h:1","r":"worker"}`,
		"4/" + id:                           `{"s":1,"a":"h","r":"worker"}`,
		"5/" + id:                           `{"s":1e300,"a":"h:1","r":"worker"}`,
		"6/" + id:                           `{"s":1,"a":"h:1","r":"worker","v":"` + strings.Repeat("x", 512) + `"}`,
	} {
		if got, err := decodeMember(name, []byte(about)); err == nil {
			t.Errorf("%q %s is %+v", name, about, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		_, _ = decodeMember(rapid.String().Draw(t, "name"), rapid.SliceOf(rapid.Byte()).Draw(t, "meta"))
	})
}

// TestNewest: of each node the latest incarnation is left, in order of nodes,
// in whatever order they come.
func TestNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := make(map[string]Member)
		var all []Member
		for range rapid.IntRange(0, 20).Draw(t, "members") {
			m := Member{Node: rapid.StringMatching("[a-d]").Draw(t, "node"), Started: rapid.Int64Range(1, 3).Draw(t, "started")}
			m.Incarnation[0] = rapid.Byte().Draw(t, "incarnation")
			all = append(all, m)
			if old, ok := want[m.Node]; !ok || later(m, old) {
				want[m.Node] = m
			}
		}
		r := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "order")))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		got := newest(all)
		if len(got) != len(want) || !slices.IsSortedFunc(got, func(a, b Member) int { return strings.Compare(a.Node, b.Node) }) {
			t.Fatalf("%v, want %v", got, want)
		}
		for _, m := range got {
			if !reflect.DeepEqual(want[m.Node], m) {
				t.Fatalf("%v, want %v", m, want[m.Node])
			}
		}
	})
}
