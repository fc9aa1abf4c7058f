/* Channels between processes: FIFOs, pipes with data in them, socket pairs of three kinds, descriptors in flight. */
#include "probe.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static int fifo_in, fifo_out, full[2], stream[2], datagram[2], packets[2], passing[2], named, client, accepted;

static void pass(int fd, char tag) {
    char space[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec data = {&tag, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    EXPECT(sendmsg(passing[0], &message, MSG_DONTWAIT) == 1);
}

static int received(char *tag) {
    int fd = -1;
    char space[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec data = {tag, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    if (recvmsg(passing[1], &message, MSG_DONTWAIT) != 1) return -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

static void send_one_more(void) {
    /* In flight through every round, also through a capture: an open file that no other process has. */
    int fd = open("passed", O_RDWR | O_CREAT | O_TRUNC, 0600);
    char text[24];
    snprintf(text, sizeof text, "%ld", rounds + 1);
    EXPECT(write(fd, text, strlen(text)) > 0);
    pass(fd, 'f');
    close(fd);
}

static void setup(void) {
    mkfifo("fifo", 0600);
    fifo_in = open("fifo", O_RDWR | O_NONBLOCK);
    fifo_out = open("fifo", O_WRONLY | O_NONBLOCK);
    MUST(fifo_in >= 0 && fifo_out >= 0 && write(fifo_out, "in the fifo", 11) == 11);
    MUST(!pipe2(full, O_NONBLOCK) && fcntl(full[0], F_SETPIPE_SZ, 8192) >= 8192);
    MUST(write(full[1], "in the pipe", 11) == 11);
    MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, stream) && write(stream[0], "in the stream", 13) == 13);
    MUST(!socketpair(AF_UNIX, SOCK_DGRAM, 0, datagram) && write(datagram[0], "one", 3) == 3);
    MUST(write(datagram[0], "second", 6) == 6);
    MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets) && write(packets[0], "packet", 6) == 6);
    MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, passing));
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "named.sock"};
    unlink("named.sock");
    named = socket(AF_UNIX, SOCK_STREAM, 0);
    MUST(!bind(named, (struct sockaddr *)&address, sizeof address) && !listen(named, 8));
    client = socket(AF_UNIX, SOCK_STREAM, 0);
    MUST(!connect(client, (struct sockaddr *)&address, sizeof address));
    accepted = accept(named, NULL, NULL);
    MUST(accepted >= 0 && write(client, "hello", 5) == 5);
    rounds = -1;
    send_one_more();
    rounds = 0;
}

static void around(const char *what, int in, int out, const char *text) {
    char found[64];
    ssize_t size = (ssize_t)strlen(text);
    if (read(in, found, sizeof found) != size || memcmp(found, text, (size_t)size)) FAULT("%s lost \"%s\"", what, text);
    if (write(out, text, (size_t)size) != size) FAULT("%s takes nothing", what);
}

static void step(void) {
    char found[64], tag = 0, text[24];
    around("fifo", fifo_in, fifo_out, "in the fifo");
    around("pipe", full[0], full[1], "in the pipe");
    around("stream", stream[1], stream[0], "in the stream");
    around("packets", packets[1], packets[0], "packet");
    around("named socket", accepted, client, "hello");
    EXPECT(recv(datagram[1], found, sizeof found, MSG_DONTWAIT) == 3);
    EXPECT(recv(datagram[1], found, sizeof found, MSG_DONTWAIT) == 6);
    EXPECT(write(datagram[0], "one", 3) == 3 && write(datagram[0], "second", 6) == 6);
    EXPECT(fcntl(full[0], F_GETPIPE_SZ) == 8192);
    int fd = received(&tag);
    ssize_t size = fd >= 0 ? pread(fd, found, sizeof found - 1, 0) : -1;
    snprintf(text, sizeof text, "%ld", rounds);
    if (size < 0) {
        FAULT("no descriptor arrived in round %ld", rounds);
    } else {
        found[size] = 0;
        if (tag != 'f' || strcmp(found, text)) FAULT("the descriptor that arrived holds %s, not %s", found, text);
    }
    if (fd >= 0) close(fd);
    send_one_more();
    int probe = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "named.sock"};
    EXPECT(!connect(probe, (struct sockaddr *)&address, sizeof address));
    int other = accept(named, NULL, NULL);
    EXPECT(other >= 0);
    close(probe);
    close(other);
}
