package job

import (
	"strings"
	"unicode/utf8"
)

// Bounds of message targets.
const (
	MaxSubject = 255
	MaxTopic   = 249 // Kafka's own
	MaxKey     = 1 << 10
)

// ValidBrokerName reports whether an operator may give a broker a name.
func ValidBrokerName(name string) bool { return actorName(name) }

func (v *validation) nats(n *NATSTarget) {
	v.broker("target.nats", n.Broker, n.Headers, n.Payload)
	if reason := subjectFault(n.Subject); reason != "" {
		v.refuse("target.nats.subject", "%s %s", shown(n.Subject), reason)
	}
}

// subjectFault is why messages cannot be published to a subject; "" when they
// can.
func subjectFault(subject string) string {
	switch {
	case subject == "":
		return "is empty: name the subject, such as orders.due"
	case len(subject) > MaxSubject:
		return "is too long: at most 255 bytes"
	case strings.HasPrefix(subject, "$") || strings.HasPrefix(subject, "_INBOX"):
		return "is reserved for NATS itself: choose another subject"
	case strings.ContainsAny(subject, "*>"):
		return "has a wildcard, and a message goes to one subject: write it out"
	}
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" {
			return "has an empty part: write words with single dots between them"
		}
		for _, r := range token {
			if r <= ' ' || r >= 0x7f {
				return "has a character that is not printable ASCII: use letters, digits, - and _"
			}
		}
	}
	return ""
}

func (v *validation) kafka(k *KafkaTarget) {
	v.broker("target.kafka", k.Broker, k.Headers, k.Payload)
	switch {
	case k.Topic == "." || k.Topic == ".." || k.Topic == "" || len(k.Topic) > MaxTopic || strings.ContainsFunc(k.Topic, func(r rune) bool { return r >= utf8.RuneSelf || !idByte(byte(r)) }):
		v.refuse("target.kafka.topic", "%s is not a topic: use 1 to %d of A-Z a-z 0-9 . _ -", shown(k.Topic), MaxTopic)
	case strings.HasPrefix(k.Topic, "__"):
		v.refuse("target.kafka.topic", "%s is reserved for Kafka itself: choose another topic", shown(k.Topic))
	}
	if len(k.Key) > MaxKey || !utf8.ValidString(k.Key) {
		v.refuse("target.kafka.key", "it has %d bytes: at most %d, in valid UTF-8", len(k.Key), MaxKey)
	}
}

// broker checks what all message targets have.
func (v *validation) broker(field, name string, headers map[string]string, payload []byte) {
	if !ValidBrokerName(name) {
		v.refuse(field+".broker", "%s is not the name of a broker, as the operator gave it: 1 to %d of A-Z a-z 0-9 . _ -", shown(name), MaxActorName)
	}
	v.problems = append(v.problems, CheckHeaders(field+".headers", headers)...)
	v.payload(field+".payload", payload, "reader")
}
