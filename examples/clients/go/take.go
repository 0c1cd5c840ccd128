// One take with redigo: go run take.go
package main

import (
	"fmt"
	"log"
	"time"

	"github.com/gomodule/redigo/redis"
)

func main() {
	weir, err := redis.Dial("tcp", "127.0.0.1:7311", redis.DialConnectTimeout(time.Second),
		redis.DialReadTimeout(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer weir.Close()
	answer, err := redis.Int64s(weir.Do("WEIR.TAKE", "api", "alice"))
	if err != nil {
		log.Fatal(err)
	}
	if answer[0] == 1 {
		fmt.Printf("%d of %d left\n", answer[2], answer[1])
	} else {
		fmt.Printf("wait %d ms\n", answer[3])
	}
}
