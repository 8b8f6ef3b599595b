// goaws on the loopback address, without a log line per message; its own command listens on all
// addresses. Arguments: the port, a configuration file.
package main

import (
	"net/http"
	"os"
	"time"

	"github.com/Admiral-Piett/goaws/app/conf"
	"github.com/Admiral-Piett/goaws/app/gosqs"
	"github.com/Admiral-Piett/goaws/app/router"
	"github.com/sirupsen/logrus"
)

func main() {
	logrus.SetLevel(logrus.ErrorLevel)
	conf.LoadYamlConfig(os.Args[2], "Local")
	go gosqs.PeriodicTasks(time.Second, make(chan bool))
	logrus.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], router.New()))
}
