// A Go server: goroutines that hand a sum around, and HTTP that counts requests.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	var count, sums, faults atomic.Int64
	stages := make([]chan int, 101)
	for i := range stages {
		stages[i] = make(chan int, 1)
	}
	for i := 0; i < 100; i++ {
		go func(in, out chan int) {
			for n := range in {
				out <- n + 1
			}
		}(stages[i], stages[i+1])
	}
	go func() {
		for range time.Tick(5 * time.Millisecond) {
			stages[0] <- 0
			if <-stages[100] != 100 {
				faults.Add(1)
			}
			sums.Add(1)
		}
	}()
	var lock sync.Mutex
	seen := map[string]int{}
	http.HandleFunc("/count", func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		seen[r.RemoteAddr]++
		lock.Unlock()
		fmt.Fprint(w, count.Add(1))
	})
	http.HandleFunc("/sums", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%d %d goroutines\n", sums.Load(), faults.Load())
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	os.WriteFile("port", []byte(fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)), 0o600)
	panic(http.Serve(listener, nil))
}
