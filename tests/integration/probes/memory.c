/* Memory: mapped in all ways, shared, sealed; locks and queues in it. */
#include "probe.h"
#include <linux/aio_abi.h>
#include <mqueue.h>
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

enum { PAGE = 4096 };

static char *mapped(size_t size, int protection, int flags)
{
	char *found = mmap(NULL, size, protection, flags, -1, 0);

	CHECK(found != MAP_FAILED);
	return found;
}

static void mappings(void)
{
	char *shared = mapped(4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
	char *mixed = mapped(4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	char *large = mapped(8u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	char *pinned = mapped(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	int ask[2], answer[2], status, i;
	pid_t child;

	CHECK(madvise(large, 8u << 20, MADV_HUGEPAGE) == 0 || errno == EINVAL);
	memset(large, 7, 8u << 20);
	memset(mixed, 1, 4 * PAGE);
	CHECK(mprotect(mixed + PAGE, PAGE, PROT_READ) == 0 && mprotect(mixed + 2 * PAGE, PAGE, PROT_NONE) == 0);
	CHECK(mlock(pinned, PAGE) == 0 && pipe(ask) == 0 && pipe(answer) == 0);
	strcpy(pinned, "pinned");
	child = fork();
	if (child == 0) {
		char byte;

		while (read(ask[0], &byte, 1) == 1) {
			shared[PAGE]++;
			byte = (char)(mixed[0] + large[1 << 20]);
			CHECK(write(answer[1], &byte, 1) == 1);
		}
		_exit(0);
	}
	captured();
	for (i = 1; i <= 3; i++) {
		char byte = 0;

		CHECK(write(ask[1], "x", 1) == 1 && read(answer[0], &byte, 1) == 1);
		CHECK(byte == 8 && shared[PAGE] == i);
	}
	CHECK(strcmp(pinned, "pinned") == 0 && mixed[PAGE] == 1);
	/* A copy into memory that may not be written, or not be read, fails. */
	CHECK(read(open("/dev/zero", O_RDONLY), mixed + PAGE, 1) < 0 && errno == EFAULT);
	CHECK(write(ask[1], mixed + 2 * PAGE, 1) < 0 && errno == EFAULT);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
}

static void sealed(void)
{
	int fd = memfd_create("named", MFD_ALLOW_SEALING | MFD_CLOEXEC), other = memfd_create("open", 0);
	const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
	char link[64], target[64] = "", *writable, *seen, *private;

	CHECK(write(fd, "content", 7) == 7 && fcntl(fd, F_ADD_SEALS, seals) == 0 && ftruncate(other, PAGE) == 0);
	writable = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
	CHECK(writable != MAP_FAILED);
	strcpy(writable, "written");
	/* Older kernels let no process map sealed memory in this way. */
	seen = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(seen != MAP_FAILED || errno == EPERM);
	private = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(private != MAP_FAILED && memcmp(private, "content", 7) == 0);
	private[0] = 'C';
	captured();
	CHECK(memcmp(private, "Content", 7) == 0);
	CHECK(seen == MAP_FAILED || memcmp(seen, "content", 7) == 0);
	CHECK(seen == MAP_FAILED || (mprotect(seen, PAGE, PROT_READ | PROT_WRITE) < 0 && errno == EACCES));
	CHECK(fcntl(fd, F_GET_SEALS) == seals && pread(fd, link, 7, 0) == 7 && memcmp(link, "content", 7) == 0);
	CHECK(pwrite(fd, "x", 1, 0) < 0 && errno == EPERM);
	CHECK(pread(other, link, 8, 0) == 8 && strcmp(link, "written") == 0);
	writable[0] = 'W';
	CHECK(pread(other, link, 8, 0) == 8 && link[0] == 'W');
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	CHECK(readlink(link, target, sizeof(target) - 1) > 0 && strncmp(target, "/memfd:named", 12) == 0);
}

/* The holder of a lock dies after the capture; the waiting thread is notified. */
static void robust(void)
{
	pthread_mutex_t *mutex = (void *)mapped(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
	pthread_mutexattr_t attributes;
	int ready[2], status;
	char byte;
	pid_t child;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	CHECK(pthread_mutex_init(mutex, &attributes) == 0 && pipe(ready) == 0);
	child = fork();
	if (child == 0) {
		CHECK(pthread_mutex_lock(mutex) == 0 && write(ready[1], "x", 1) == 1);
		for (;;)
			pause();
	}
	CHECK(read(ready[0], &byte, 1) == 1);
	captured();
	CHECK(pthread_mutex_trylock(mutex) == EBUSY);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
	CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD);
}

static void system_v(void)
{
	struct {
		long type;
		char text[16];
	} message = {5, "queued"};
	int memory = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600), semaphores = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
	int queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
	char *map = shmat(memory, NULL, 0);

	CHECK(map != (void *)-1 && semaphores >= 0 && queue >= 0);
	strcpy(map, "shared");
	CHECK(semctl(semaphores, 1, SETVAL, 42) == 0 && msgsnd(queue, &message, sizeof(message.text), 0) == 0);
	captured();
	CHECK(strcmp(map, "shared") == 0 && semctl(semaphores, 1, GETVAL) == 42);
	CHECK(strcmp(shmat(memory, NULL, 0), "shared") == 0);
	memset(&message, 0, sizeof(message));
	CHECK(msgrcv(queue, &message, sizeof(message.text), 5, IPC_NOWAIT) == 16 && strcmp(message.text, "queued") == 0);
}

static void kernel_aio(void)
{
	aio_context_t context = 0;
	struct io_event event;
	struct timespec limit = {30, 0};
	static char block[PAGE] __attribute__((aligned(PAGE)));
	struct iocb request = {0}, *list = &request;
	int fd = open(path_of("aio"), O_RDWR | O_CREAT, 0644);

	CHECK(syscall(SYS_io_setup, 8, &context) == 0);
	captured();
	strcpy(block, "written");
	request.aio_lio_opcode = IOCB_CMD_PWRITE;
	request.aio_fildes = (unsigned)fd;
	request.aio_buf = (uintptr_t)block;
	request.aio_nbytes = PAGE;
	CHECK(syscall(SYS_io_submit, context, 1, &list) == 1);
	CHECK(syscall(SYS_io_getevents, context, 1, 1, &event, &limit) == 1 && event.res == PAGE);
}

const struct probe MEMORY_PROBES[] = {
	{"mappings", mappings}, {"memfd", sealed}, {"robust-mutex", robust}, {"system-v", system_v},
	{"aio", kernel_aio}, {NULL, NULL},
};
