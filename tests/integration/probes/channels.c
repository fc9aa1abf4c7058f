/* Channels between processes, with data in flight. */
#include "probe.h"
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/un.h>

static void counters(void)
{
	int plain = eventfd(42, EFD_NONBLOCK), semaphore = eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC), i;
	uint64_t value;

	captured();
	CHECK(read(plain, &value, 8) == 8 && value == 42 && read(plain, &value, 8) < 0 && errno == EAGAIN);
	for (i = 0; i < 3; i++)
		CHECK(read(semaphore, &value, 8) == 8 && value == 1);
	CHECK(read(semaphore, &value, 8) < 0 && errno == EAGAIN && fcntl(semaphore, F_GETFD) == FD_CLOEXEC);
}

static void polled(void)
{
	int set = epoll_create1(EPOLL_CLOEXEC), outer = epoll_create1(0), pair[2], other[2], counter = eventfd(1, 0), twin;
	struct epoll_event event = {.events = EPOLLIN}, found[8];

	CHECK(pipe(pair) == 0 && pipe(other) == 0);
	event.data.u64 = 0x1122334455667788;
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event) == 0);
	event.data.u64 = 2;
	event.events = EPOLLIN | EPOLLET;
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, counter, &event) == 0);
	event.data.u64 = 3;
	event.events = EPOLLIN | EPOLLONESHOT;
	/* Added under a number that another file has later: by dup, and closed. */
	twin = dup(other[0]);
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, twin, &event) == 0 && close(twin) == 0);
	event.data.u64 = 4;
	event.events = EPOLLIN;
	CHECK(epoll_ctl(outer, EPOLL_CTL_ADD, set, &event) == 0);
	captured();
	CHECK(epoll_wait(outer, found, 8, 0) == 1 && found[0].data.u64 == 4);
	CHECK(epoll_wait(set, found, 8, 0) == 1 && found[0].data.u64 == 2);
	CHECK(write(pair[1], "x", 1) == 1);
	CHECK(epoll_wait(set, found, 8, 0) == 1 && found[0].data.u64 == 0x1122334455667788);
	CHECK(write(other[1], "x", 1) == 1);
	CHECK(epoll_wait(set, found, 8, 0) == 2 && (found[0].data.u64 == 3 || found[1].data.u64 == 3));
}

static void pipes(void)
{
	static char block[65536], found[65536];
	int full[2], sized[2], closed[2], i;

	CHECK(pipe2(full, O_NONBLOCK) == 0 && pipe(sized) == 0 && pipe(closed) == 0);
	for (i = 0; i < (int)sizeof(block); i++)
		block[i] = (char)(i * 31);
	CHECK(write(full[1], block, sizeof(block)) == sizeof(block) && write(full[1], "x", 1) < 0 && errno == EAGAIN);
	CHECK(fcntl(sized[1], F_SETPIPE_SZ, 1 << 20) == 1 << 20);
	for (i = 0; i < 15; i++)
		CHECK(write(sized[1], block, sizeof(block)) == sizeof(block));
	CHECK(write(closed[1], "last", 4) == 4 && close(closed[1]) == 0);
	captured();
	CHECK(read(full[0], found, sizeof(found)) == sizeof(found) && memcmp(block, found, sizeof(block)) == 0);
	CHECK(fcntl(sized[0], F_GETPIPE_SZ) == 1 << 20);
	for (i = 0; i < 15; i++)
		CHECK(read(sized[0], found, sizeof(found)) == sizeof(found) && memcmp(block, found, sizeof(block)) == 0);
	CHECK(read(closed[0], found, 9) == 4 && memcmp(found, "last", 4) == 0 && read(closed[0], found, 9) == 0);
}

static void fifo(void)
{
	const char *path = path_of("fifo");
	int both, writer, reader;
	char found[16];

	CHECK(mkfifo(path, 0600) == 0);
	both = open(path, O_RDWR);
	writer = open(path, O_WRONLY);
	reader = open(path, O_RDONLY | O_NONBLOCK);
	CHECK(write(writer, "in the pipe", 11) == 11 && close(both) == 0);
	captured();
	CHECK(read(reader, found, sizeof(found)) == 11 && memcmp(found, "in the pipe", 11) == 0);
	CHECK(write(writer, "more", 4) == 4 && read(reader, found, sizeof(found)) == 4);
	CHECK(close(writer) == 0 && read(reader, found, sizeof(found)) == 0);
}

static void send_descriptor(int over, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'd';
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *part = CMSG_FIRSTHDR(&message);

	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(part), &fd, sizeof(int));
	CHECK(sendmsg(over, &message, 0) == 1);
}

static int receive_descriptor(int over)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte;
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	int fd;

	CHECK(recvmsg(over, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return fd;
}

static void pairs(void)
{
	static const int TYPES[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
	int ends[3][2], half[2], i;
	char found[32];

	for (i = 0; i < 3; i++) {
		CHECK(socketpair(AF_UNIX, TYPES[i], 0, ends[i]) == 0);
		CHECK(write(ends[i][0], "first", 5) == 5 && write(ends[i][0], "second", 6) == 6);
		CHECK(write(ends[i][1], "back", 4) == 4);
	}
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, half) == 0 && write(half[0], "x", 1) == 1 && shutdown(half[0], SHUT_WR) == 0);
	captured();
	CHECK(read(ends[0][1], found, sizeof(found)) == 11 && memcmp(found, "firstsecond", 11) == 0);
	for (i = 1; i < 3; i++)
		CHECK(read(ends[i][1], found, sizeof(found)) == 5 && read(ends[i][1], found, sizeof(found)) == 6);
	for (i = 0; i < 3; i++)
		CHECK(read(ends[i][0], found, sizeof(found)) == 4 && memcmp(found, "back", 4) == 0);
	CHECK(read(half[1], found, 9) == 1 && read(half[1], found, 9) == 0);
}

static void passed(void)
{
	int ends[2], pipe_ends[2], file = open(path_of("passed"), O_RDWR | O_CREAT, 0644), got;
	char found[16];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && pipe(pipe_ends) == 0);
	CHECK(write(file, "by descriptor", 13) == 13);
	send_descriptor(ends[0], file);
	send_descriptor(ends[0], pipe_ends[1]);
	CHECK(close(file) == 0 && close(pipe_ends[1]) == 0);
	captured();
	got = receive_descriptor(ends[1]);
	CHECK(pread(got, found, sizeof(found), 0) == 13 && memcmp(found, "by descriptor", 13) == 0);
	got = receive_descriptor(ends[1]);
	CHECK(write(got, "y", 1) == 1 && read(pipe_ends[0], found, 2) == 1 && close(got) == 0);
	CHECK(read(pipe_ends[0], found, 2) == 0);
}

static socklen_t address(struct sockaddr_un *to, const char *path, int abstract)
{
	memset(to, 0, sizeof(*to));
	to->sun_family = AF_UNIX;
	strcpy(to->sun_path + abstract, path);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
}

static void listeners(void)
{
	int abstract, server, client[2], accepted[2], next, i;
	struct sockaddr_un where;
	socklen_t size;
	char found[8];

	for (abstract = 0; abstract < 2; abstract++) {
		server = socket(AF_UNIX, SOCK_STREAM, 0);
		size = address(&where, path_of("socket"), abstract);
		CHECK(bind(server, (void *)&where, size) == 0 && listen(server, 8) == 0);
		client[abstract] = socket(AF_UNIX, SOCK_STREAM, 0);
		CHECK(connect(client[abstract], (void *)&where, size) == 0);
		accepted[abstract] = accept(server, NULL, NULL);
		CHECK(accepted[abstract] >= 0 && write(client[abstract], "hello", 5) == 5);
	}
	captured();
	for (i = 0; i < 2; i++) {
		CHECK(read(accepted[i], found, sizeof(found)) == 5 && write(accepted[i], "x", 1) == 1);
		CHECK(read(client[i], found, sizeof(found)) == 1);
		next = socket(AF_UNIX, SOCK_STREAM, 0);
		size = address(&where, path_of("socket"), i);
		CHECK(connect(next, (void *)&where, size) == 0);
	}
}

static volatile sig_atomic_t told;

static void tell(int number)
{
	(void)number;
	told = 1;
}

static void driven(void)
{
	int ends[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	signal(SIGIO, tell);
	CHECK(fcntl(ends[0], F_SETOWN, getpid()) == 0 && fcntl(ends[0], F_SETFL, O_ASYNC) == 0);
	captured();
	CHECK(fcntl(ends[0], F_GETOWN) == getpid() && write(ends[1], "x", 1) == 1);
	while (!told)
		usleep(1000);
}

const struct probe CHANNEL_PROBES[] = {
	{"eventfd", counters}, {"epoll", polled}, {"pipes", pipes}, {"fifo", fifo}, {"pairs", pairs},
	{"passed", passed}, {"listeners", listeners}, {"driven", driven}, {NULL, NULL},
};
