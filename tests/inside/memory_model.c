/* Does random things to memory from several threads, and compares every page of it with a model.
 *
 *   memory_model FOLDER SEED
 *
 * Each thread has a part of one large mapping, and notes what each page of that must hold. Children know it as well, and
 * compare what they see; so do system calls that read memory which no thread has touched. The number of operations is
 * in FOLDER/done-N, for each thread. FOLDER/wrong has what differed. When FOLDER/end exists, the threads end, every
 * page is compared once more, and FOLDER/ended says how many were.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS = 4, PART = 6144, MOST = 64, WORDS = PAGE / 8 };

static char *memory, *spare;
/* What a page holds: a number that each of its words is derived from; 0: nothing. */
static uint32_t model[THREADS][PART];
/* What children of fork(2) see of it: all, or zeros. */
static unsigned char seen[THREADS][PART];
enum { ALL, ZEROS };
/* Held while a part of the mapping is somewhere else, and while a new mapping could take its place. */
static pthread_mutex_t moving = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static uint64_t key;

static void wrong(const char *form, ...)
{
	char path[256], text[256];
	va_list args;
	int file, length;

	va_start(args, form);
	length = vsnprintf(text, sizeof(text), form, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/wrong", folder);
	file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (write(file, text, (size_t)length) < 0)
		abort();
	close(file);
}

static int exists(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return access(path, F_OK) == 0;
}

static void note(const char *name, long number)
{
	char path[256], text[32];
	int file, length = snprintf(text, sizeof(text), "%ld\n", number);

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (write(file, text, (size_t)length) < 0)
		abort();
	close(file);
}

struct dice {
	uint64_t state;
};

static uint32_t draw(struct dice *dice, uint32_t below)
{
	dice->state = dice->state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)((dice->state >> 33) % below);
}

static uint64_t word(int part, int page, uint32_t version, int at)
{
	return version ? (key ^ ((uint64_t)version << 32) ^ (uint64_t)(part * PART + page)) * (uint64_t)(2 * at + 1) : 0;
}

static char *place(int part, int page)
{
	return memory + ((size_t)part * PART + (size_t)page) * PAGE;
}

static void fill(int part, int page, uint32_t version, uint64_t *to)
{
	for (int at = 0; at < WORDS; at++)
		to[at] = word(part, page, version, at);
	model[part][page] = version;
}

static int compare(const char *who, int part, int page, uint32_t version, const void *found)
{
	const uint64_t *words = found;

	for (int at = 0; at < WORDS; at += 73)
		if (words[at] != word(part, page, version, at)) {
			wrong("%s: part %d, page %d, word %d is %lx instead of %lx (version %u)\n", who, part, page, at,
			      (unsigned long)words[at], (unsigned long)word(part, page, version, at), version);
			return 0;
		}
	return 1;
}

static void look(const char *who, int part, int page)
{
	compare(who, part, page, model[part][page], place(part, page));
}

static void finish(pid_t child, const char *what)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR) {
			wrong("%s: %s\n", what, strerror(errno));
			return;
		}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
			wrong("%s: a child ended with %x\n", what, (unsigned)status);
}

/* What a child sees of the part of the thread that made it; another child of that one as well. */
static void in_child(struct dice *dice, int part, int depth)
{
	int from = (int)draw(dice, PART), count = (int)draw(dice, 400);

	for (int page = from; page < from + count && page < PART; page++)
		compare(depth ? "grandchild" : "child", part, page,
			seen[part][page] == ZEROS ? 0 : model[part][page], place(part, page));
	if (depth == 0 && draw(dice, 3) == 0) {
		pid_t child;

		for (int page = 0; page < PART; page++)
			if (seen[part][page] == ZEROS)
				model[part][page] = 0;
		child = fork();
		if (child == 0) {
			in_child(dice, part, 1);
			_exit(0);
		}
		if (child > 0)
			finish(child, "grandchild");
	}
}

static void by_fork(struct dice *dice, int part)
{
	int killed = draw(dice, 6) == 0;
	pid_t child = fork();

	if (child < 0)
		return;
	if (child == 0) {
		in_child(dice, part, 0);
		while (killed)
			in_child(dice, part, 1);
		_exit(0);
	}
	if (killed) {
		usleep(draw(dice, 3000));
		kill(child, SIGKILL);
	}
	finish(child, "fork");
}

static void must(int result, const char *what)
{
	if (result < 0)
		wrong("%s: %s\n", what, strerror(errno));
}

static void trace(int part, int page)
{
	pid_t child = fork();
	long found;
	int status;

	if (child < 0)
		return;
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
			raise(SIGSTOP);
		compare("traced child", part, page, seen[part][page] == ZEROS ? 0 : model[part][page],
			place(part, page));
		_exit(0);
	}
	if (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		errno = 0;
		found = ptrace(PTRACE_PEEKDATA, child, place(part, page), NULL);
		/* The kernel lets only the process itself wait for missing memory. */
		if (errno == 0 && seen[part][page] == ALL &&
		    (uint64_t)found != word(part, page, model[part][page], 0))
			wrong("ptrace: part %d, page %d is %lx\n", part, page, (unsigned long)found);
		must((int)ptrace(PTRACE_CONT, child, NULL, NULL), "PTRACE_CONT");
		finish(child, "ptrace");
	}
}

/* By a process of one thread: a copy's child is that of the main thread, and only the thread that a child asked to
 * trace it may say that it continues. */
static void by_ptrace(int part, int page)
{
	pid_t tracer = fork();

	if (tracer == 0) {
		trace(part, page);
		_exit(0);
	}
	if (tracer > 0)
		finish(tracer, "tracer");
}

static void by_call(struct dice *dice, int part, int page)
{
	static __thread char copy[PAGE] __attribute__((aligned(8)));
	struct iovec from = {place(part, page), PAGE}, to = {copy, PAGE};
	int ends[2];
	ssize_t got = -1;

	if (draw(dice, 2)) {
		got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
		if (got < 0 && (errno == EFAULT || errno == EPERM || errno == ENOSYS))
			return;
	} else if (pipe2(ends, O_CLOEXEC) == 0) {
		if (write(ends[1], from.iov_base, PAGE) == PAGE)
			got = read(ends[0], copy, PAGE);
		close(ends[0]);
		close(ends[1]);
	}
	if (got != PAGE)
		wrong("a call: part %d, page %d: %zd, %s\n", part, page, got, strerror(errno));
	else
		compare("a call", part, page, model[part][page], copy);
}

static void by_read(int part, int page, uint32_t version)
{
	static __thread uint64_t content[WORDS];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	fill(part, page, version, content); /* and notes it */
	if (write(ends[1], content, PAGE) != PAGE || read(ends[0], place(part, page), PAGE) != PAGE)
		wrong("read: part %d, page %d: %s\n", part, page, strerror(errno));
	close(ends[0]);
	close(ends[1]);
}

static void one(struct dice *dice, int part, uint32_t version)
{
	int page = (int)draw(dice, PART), count = 1 + (int)draw(dice, MOST);
	char *at = place(part, page), *aside = spare + (size_t)part * MOST * PAGE, *name[] = {"true", NULL};
	size_t size;
	extern char **environ;
	pid_t child;
	int failed;

	if (page + count > PART)
		count = PART - page;
	size = (size_t)count * PAGE;
	switch (draw(dice, 40)) {
	case 0:
		by_fork(dice, part);
		break;
	case 1:
		by_ptrace(part, page);
		break;
	case 2:
		pthread_mutex_lock(&moving);
		failed = posix_spawnp(&child, "true", NULL, NULL, name, environ);
		pthread_mutex_unlock(&moving);
		if (!failed)
			finish(child, "exec");
		break;
	case 3:
		must(madvise(at, size, MADV_DONTNEED), "MADV_DONTNEED");
		memset(&model[part][page], 0, (size_t)count * sizeof(model[0][0]));
		break;
	case 4:
		if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
			wrong("mmap: %s\n", strerror(errno));
		memset(&model[part][page], 0, (size_t)count * sizeof(model[0][0]));
		memset(&seen[part][page], ALL, (size_t)count);
		break;
	case 5: /* away, and back: one page, since only what is of one mapping moves as a whole */
		size = PAGE;
		pthread_mutex_lock(&moving);
		if (mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, aside) != aside) {
			wrong("mremap: %s\n", strerror(errno));
			pthread_mutex_unlock(&moving);
			break;
		}
		compare("moved", part, page, model[part][page], aside);
		if (mremap(aside, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at)
			wrong("mremap back: %s\n", strerror(errno));
		pthread_mutex_unlock(&moving);
		break;
	case 6:
		must(mprotect(at, size, PROT_READ), "mprotect");
		look("protected", part, page);
		must(mprotect(at, size, PROT_READ | PROT_WRITE), "mprotect back");
		break;
	case 7:
		must(madvise(at, size, MADV_WIPEONFORK), "MADV_WIPEONFORK");
		memset(&seen[part][page], ZEROS, (size_t)count);
		break;
	case 8:
		must(madvise(at, size, MADV_KEEPONFORK), "MADV_KEEPONFORK");
		memset(&seen[part][page], ALL, (size_t)count);
		break;
	case 9:
		must(madvise(at, size, MADV_DONTFORK), "MADV_DONTFORK");
		if ((child = fork()) == 0) {
			for (int number = page + count; number < page + count + 50 && number < PART; number++)
				if (seen[part][number] == ALL)
					compare("beside DONTFORK", part, number, model[part][number], place(part, number));
			_exit(0);
		}
		if (child > 0)
			finish(child, "MADV_DONTFORK");
		must(madvise(at, size, MADV_DOFORK), "MADV_DOFORK");
		break;
	case 10:
		by_read(part, page, version);
		break;
	case 11: /* as an allocator does */
		must(madvise(at, size, MADV_FREE), "MADV_FREE");
		for (int number = page; number < page + count; number++)
			fill(part, number, version, (uint64_t *)place(part, number));
		break;
	case 12:
		madvise(at, size, MADV_POPULATE_WRITE); /* a kernel may not know it */
		break;
	case 13 ... 16:
		by_call(dice, part, page);
		break;
	case 17 ... 24:
		fill(part, page, version, (uint64_t *)place(part, page));
		break;
	default:
		look("thread", part, page);
	}
}

static void *work(void *argument)
{
	int part = (int)(intptr_t)argument;
	struct dice dice = {key + (uint64_t)part * 7919};
	char name[32];

	snprintf(name, sizeof(name), "done-%d", part);
	for (long number = 1; !exists("end"); number++) {
		one(&dice, part, (uint32_t)(number % 1000000 + 1));
		if (number % 20 == 0)
			note(name, number);
		/* Where it does not stop, the rest of memory is loaded soon. */
		usleep(draw(&dice, 4) ? 500 : draw(&dice, 20000));
	}
	return NULL;
}

int main(int count, char **words)
{
	pthread_t threads[THREADS];
	long pages = 0;
	size_t size = (size_t)THREADS * PART * PAGE;

	if (count != 3)
		return 2;
	folder = words[1];
	key = strtoull(words[2], NULL, 10) * 2654435761ULL + 1;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	spare = mmap(NULL, (size_t)THREADS * MOST * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED || spare == MAP_FAILED)
		return 3;
	madvise(memory, size, MADV_NOHUGEPAGE);
	for (int part = 0; part < THREADS; part++)
		for (int page = 0; page < PART; page++)
			fill(part, page, 1, (uint64_t *)place(part, page));
	for (int part = 0; part < THREADS; part++)
		pthread_create(&threads[part], NULL, work, (void *)(intptr_t)part);
	note("ready", getpid());
	for (int part = 0; part < THREADS; part++)
		pthread_join(threads[part], NULL);
	for (int part = 0; part < THREADS; part++)
		for (int page = 0; page < PART; page++)
			pages += compare("at the end", part, page, model[part][page], place(part, page));
	note("ended", pages);
	return 0;
}
