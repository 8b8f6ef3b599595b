// fauxqs on the loopback address, without a log line per request; its own command listens on all
// addresses. Argument: the port.
import { buildApp } from "fauxqs";

await buildApp({ logger: false }).listen({ port: Number(process.argv[2]), host: "127.0.0.1" });
