/* A program whose threads change its memory in every way they can, at random, until it is killed.
 *
 * Usage: changing SEED. It says "ready" when its memory is there.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, REGIONS = 4, PAGES = 2048, THREADS = 4 };

/* Each region has room for itself once more, behind it. */
static char *regions[REGIONS];
static pthread_rwlock_t shape = PTHREAD_RWLOCK_INITIALIZER;
static int zeros, numbers;

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static char *reserved(void)
{
	char *at = mmap(NULL, 2UL * PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		abort();
	return (char *)(((uintptr_t)at + (2UL << 20) - 1) & ~((2UL << 20) - 1));
}

static void map(char *at, size_t pages)
{
	if (mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
		abort();
}

static void fill(char *at, size_t pages, uint64_t *state)
{
	for (size_t page = 0; page < pages; page++)
		*(uint64_t *)(at + page * PAGE + next(state) % 500 * 8) = next(state);
}

/* What no other thread must see half done. */
static void reshape(char **region, uint64_t *state)
{
	size_t first = next(state) % PAGES, count = 1 + next(state) % 64;
	char *at;

	if (first + count > PAGES)
		count = PAGES - first;
	pthread_rwlock_wrlock(&shape);
	at = *region + first * PAGE;
	switch (next(state) % 10) {
	case 0:
		munmap(at, count * PAGE);
		map(at, count);
		break;
	case 1: /* away, and something else in its place */
		at = reserved();
		if (mremap(*region, (size_t)PAGES * PAGE, (size_t)PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at) {
			map(at, PAGES); /* it has been moved in part, or not at all */
			munmap(*region, (size_t)PAGES * PAGE);
		}
		*region = at;
		break;
	case 2: /* two places exchanged */
		if (first < PAGES / 2 && first + count < PAGES / 2) {
			char *other = reserved();

			if (mremap(at, count * PAGE, count * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other &&
			    mremap(at + (size_t)PAGES / 2 * PAGE, count * PAGE, count * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
				   at) == at)
				mremap(other, count * PAGE, count * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
				       at + (size_t)PAGES / 2 * PAGE);
			else
				map(at, count);
			munmap(other, count * PAGE);
			map(at, count);
			map(at + (size_t)PAGES / 2 * PAGE, count);
			fill(at, count, state);
		}
		break;
	case 3: { /* leaves the addresses mapped and empty */
		char *other = reserved();

		mremap(at, count * PAGE, count * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, other);
		munmap(other, count * PAGE);
		break;
	}
	case 4:
		mprotect(at, count * PAGE, PROT_READ);
		mprotect(at, count * PAGE, PROT_READ | PROT_WRITE);
		break;
	case 5: /* whole, new */
	case 8:
	case 9:
		munmap(*region, (size_t)PAGES * PAGE);
		map(*region, PAGES);
		fill(*region, PAGES, state);
		break;
	case 6: { /* shrunk and grown in its place */
		char *end = *region + (size_t)(PAGES - 64) * PAGE;

		munmap(end, 64 * PAGE);
		if (mremap(*region, (size_t)(PAGES - 64) * PAGE, (size_t)PAGES * PAGE, 0) == MAP_FAILED)
			map(end, 64);
		break;
	}
	default: { /* a child writes what it got, and ends */
		pid_t child = fork();

		if (child == 0) {
			fill(at, count, state);
			_exit(0);
		}
		fill(at, count, state);
		if (child > 0)
			waitpid(child, NULL, 0);
	}
	}
	pthread_rwlock_unlock(&shape);
}

static void change(char *at, size_t count, uint64_t *state)
{
	static const int advice[] = { MADV_DONTNEED, MADV_FREE,	    MADV_COLD,
				      MADV_PAGEOUT,  MADV_WILLNEED, 25 /* MADV_COLLAPSE */ };
	volatile char seen;

	switch (next(state) % 8) {
	case 0:
	case 1:
	case 2:
		fill(at, count, state);
		break;
	case 3:
		if (read(zeros, at + 8, 100) < 0)
			abort();
		break;
	case 4:
		if (read(numbers, at + next(state) % PAGE, 300) < 0)
			abort();
		break;
	case 5:
		madvise(at, count * PAGE, advice[next(state) % (sizeof(advice) / sizeof(*advice))]);
		break;
	case 6: {
		uint64_t value = next(state);
		struct iovec from = { &value, 8 }, to = { at, 8 };

		process_vm_writev(getpid(), &from, 1, &to, 1, 0);
		break;
	}
	default:
		for (size_t page = 0; page < count; page++)
			seen = at[page * PAGE];
		(void)seen;
	}
}

static void *run(void *seed)
{
	uint64_t state = (uintptr_t)seed * 0x9e3779b97f4a7c15ULL + 1;

	for (;;) {
		char **region = &regions[next(&state) % REGIONS];
		size_t first = next(&state) % (PAGES - 16), count = 1 + next(&state) % 16;

		if (next(&state) % 4000 == 0)
			reshape(region, &state);
		pthread_rwlock_rdlock(&shape);
		change(*region + first * PAGE, count, &state);
		pthread_rwlock_unlock(&shape);
		usleep((useconds_t)(next(&state) % 4000));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t state = argc > 1 ? strtoull(argv[1], NULL, 10) * 7919 + 1 : 1;
	pthread_t thread;

	zeros = open("/dev/zero", O_RDONLY);
	numbers = open("/dev/urandom", O_RDONLY);
	for (int each = 0; each < REGIONS; each++) {
		regions[each] = reserved();
		map(regions[each], PAGES);
		if (each % 2)
			madvise(regions[each], (size_t)PAGES * PAGE, MADV_HUGEPAGE);
		fill(regions[each], PAGES, &state);
	}
	for (int each = 0; each < THREADS; each++)
		pthread_create(&thread, NULL, run, (void *)(uintptr_t)next(&state));
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
