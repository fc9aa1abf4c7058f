/* Leaves large heaps out of what CRIU writes: they are copied from twins, see guard_twins.c.
 *
 * CRIU asks the kernel which pages a process has (PAGEMAP_SCAN, or by reading /proc/PID/pagemap before Linux 6.7). Of
 * a heap that is hidden it learns that nothing is there.
 *
 * HOLDFAST_HEAPS is there in a capture: the number of a file that has a line for each heap, "PID CODE START END WISHES",
 * in pids of the session and by ascending addresses. It is complete when the session is frozen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"

/* MOST in heaps.py. */
enum { MOST = 1024, MOST_FILES = 1024 };
enum { PAGE_BITS = 12, ENTRY = 8 };
/* PAGE_IS_GUARD of linux/fs.h: such pages CRIU looks for by themselves, and keeps (madvise(2), MADV_GUARD_INSTALL). */
enum { IS_GUARD = 1 << 8 };

static int list_fd = -1;
static struct heap heaps[MOST];
static size_t heap_count;
/* The process whose pagemap is open by that number; 0: none. */
static pid_t opened[MOST_FILES];

void read_heaps(const char *spec)
{
	if (spec != NULL && sscanf(spec, "%d", &list_fd) != 1) {
		errno = EINVAL;
		die("read HOLDFAST_HEAPS");
	}
}

int heap_list(void)
{
	return list_fd;
}

static void read_list(void)
{
	static int is_read;
	struct stat about;
	char *text, *line;
	int length;

	if (is_read || list_fd < 0)
		return;
	is_read = 1;
	if (fstat(list_fd, &about) < 0 || (text = calloc(1, (size_t)about.st_size + 1)) == NULL ||
	    pread(list_fd, text, (size_t)about.st_size, 0) != about.st_size)
		die("read the list of heaps");
	for (line = text; heap_count < MOST; line += length, heap_count++) {
		struct heap *one = &heaps[heap_count];

		if (sscanf(line, "%d %lx %lx %lx %lx\n%n", &one->pid, &one->code, &one->start, &one->end, &one->wishes,
			   &length) != 5)
			break;
	}
	free(text);
}

const struct heap *heap_at(size_t number)
{
	return number < heap_count ? &heaps[number] : NULL;
}

void pagemap_opened(int directory, int fd)
{
	read_list();
	if (heap_count != 0 && fd >= 0 && fd < MOST_FILES)
		opened[fd] = process_of(directory);
}

static pid_t owner_of(int fd)
{
	return fd >= 0 && fd < MOST_FILES ? opened[fd] : 0;
}

/* The first heap of a process that ends behind an address; NULL: none. */
static const struct heap *next_heap(pid_t pid, uint64_t address)
{
	size_t each;

	for (each = 0; each < heap_count; each++)
		if (heaps[each].pid == pid && heaps[each].end > address)
			return &heaps[each];
	return NULL;
}

/* An entry of 0: there is no page (Documentation/admin-guide/mm/pagemap.rst of Linux). */
ssize_t pread64(int fd, void *buffer, size_t size, off64_t offset)
{
	struct place place = place_of_pages(fd, (uint64_t)offset, size);
	ssize_t got = syscall(SYS_pread64, place.file, buffer, place.size, place.offset);
	pid_t pid = owner_of(fd);
	const struct heap *heap;
	uint64_t at, end;

	if (pid == 0 || got <= 0)
		return got;
	at = (uint64_t)offset / ENTRY << PAGE_BITS;
	end = ((uint64_t)offset + (uint64_t)got) / ENTRY << PAGE_BITS;
	while ((heap = next_heap(pid, at)) != NULL && heap->start < end) {
		uint64_t from = heap->start > at ? heap->start : at, to = heap->end < end ? heap->end : end;

		memset((char *)buffer + (from >> PAGE_BITS) * ENTRY - (uint64_t)offset, 0, ((to - from) >> PAGE_BITS) * ENTRY);
		at = to;
	}
	return got;
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset) __attribute__((alias("pread64")));

long scan_pages(int fd, struct page_scan *asked)
{
	struct page_scan part = *asked;
	pid_t pid = owner_of(fd);
	const struct heap *heap;
	long found = 0, got;

	if (pid == 0 || (asked->mask & IS_GUARD && !(asked->inverted & IS_GUARD)))
		return syscall(SYS_ioctl, fd, PAGE_SCAN, asked);
	asked->walk_end = asked->start;
	while (asked->walk_end < asked->end && part.room != 0) {
		part.start = asked->walk_end;
		heap = next_heap(pid, part.start);
		if (heap != NULL && heap->start <= part.start) {
			asked->walk_end = heap->end < asked->end ? heap->end : asked->end;
			continue;
		}
		part.end = heap != NULL && heap->start < asked->end ? heap->start : asked->end;
		got = syscall(SYS_ioctl, fd, PAGE_SCAN, &part);
		if (got < 0)
			return got;
		found += got;
		part.regions += (uint64_t)got * REGION_BYTES;
		part.room -= (uint64_t)got;
		asked->walk_end = part.walk_end;
		if (part.walk_end < part.end)
			break;
	}
	return found;
}
