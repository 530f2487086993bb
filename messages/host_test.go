package messages

import (
	"testing"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func TestHost(t *testing.T) {
	for want, target := range map[string]*belfryv1.Target{
		"api.example.com": {Kind: &belfryv1.Target_Http{Http: &belfryv1.HTTPTarget{Url: "https://API.example.com:443/hook"}}},
		"actor cart":      {Kind: &belfryv1.Target_Actor{Actor: &belfryv1.ActorTarget{Kind: "cart", Identity: "17"}}},
		"nats main":       {Kind: &belfryv1.Target_Nats{Nats: &belfryv1.NATSTarget{Broker: "main", Subject: "a.b"}}},
		"kafka main":      {Kind: &belfryv1.Target_Kafka{Kafka: &belfryv1.KafkaTarget{Broker: "main", Topic: "a"}}},
		"":                {},
	} {
		if got := Host(target); got != want {
			t.Errorf("%v has host %q, want %q", target, got, want)
		}
	}
}
