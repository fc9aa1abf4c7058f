// A Java program: threads, a scheduled executor, garbage all the time, and a server that counts its requests.
import java.io.*;
import java.net.*;
import java.nio.file.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

public class Server {
    static final AtomicLong rounds = new AtomicLong(), faults = new AtomicLong(), count = new AtomicLong();
    static volatile byte[][] garbage;

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        ConcurrentHashMap<Integer, Long> squares = new ConcurrentHashMap<>();
        ScheduledExecutorService clock = Executors.newScheduledThreadPool(1);
        clock.scheduleAtFixedRate(() -> {
            try {
                CountDownLatch done = new CountDownLatch(100);
                for (int n = 0; n < 100; n++) {
                    int number = n;
                    pool.submit(() -> { squares.merge(number, (long) number * number, (a, b) -> b); done.countDown(); });
                }
                if (!done.await(60, TimeUnit.SECONDS)) faults.incrementAndGet();
                if (squares.values().stream().mapToLong(Long::longValue).sum() != 328350L) faults.incrementAndGet();
                garbage = new byte[64][16384];
                rounds.incrementAndGet();
                Path next = Path.of("new");
                Files.writeString(next, rounds.get() + " " + faults.get() + " in threads of Java\n");
                Files.move(next, Path.of("state"), StandardCopyOption.ATOMIC_MOVE);
            } catch (Exception error) {
                faults.incrementAndGet();
            }
        }, 0, 20, TimeUnit.MILLISECONDS);
        ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        Files.writeString(Path.of("port"), String.valueOf(server.getLocalPort()));
        while (true) {
            Socket connection = server.accept();
            pool.submit(() -> {
                try (BufferedReader in = new BufferedReader(new InputStreamReader(connection.getInputStream()));
                        PrintWriter out = new PrintWriter(connection.getOutputStream(), true)) {
                    while (in.readLine() != null) out.println(count.incrementAndGet());
                }
                return null;
            });
        }
    }
}
