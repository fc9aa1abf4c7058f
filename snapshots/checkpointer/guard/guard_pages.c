/* Where the process that serves memory on demand finds pages that are in the images of several captures.
 *
 * The image that CRIU opens has holes in their place (flat_memory.py). HOLDFAST_PAGES is the number of a file that has
 * a line for each run of them, "IMAGE AT BYTES FILE FROM": the number in the image's name, the place there, and where the
 * pages are, by the number of a descriptor. Lines of one image stand together, by ascending places.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard.h"

enum { MOST_FILES = 1024 };

static struct run {
	unsigned long image;
	uint64_t at, size;
	int file;
	uint64_t from;
} *runs;
static size_t run_count;
/* The image that is open by that number, as the first of its runs and how many it has. */
static struct {
	size_t first, count;
} opened[MOST_FILES];

/* The next number of a text, which moves on behind it; 0 if there is none. sscanf(3) would measure the whole rest of the
 * text for each line. */
static int take_number(char **text, uint64_t *number)
{
	char *end;

	*number = strtoull(*text, &end, 10);
	if (end == *text)
		return 0;
	*text = end;
	return 1;
}

static int take_run(char **text, struct run *run)
{
	uint64_t image, file;

	if (!take_number(text, &image) || !take_number(text, &run->at) || !take_number(text, &run->size) ||
	    !take_number(text, &file) || !take_number(text, &run->from))
		return 0;
	run->image = (unsigned long)image;
	run->file = (int)file;
	return 1;
}

void read_pages(const char *spec)
{
	struct stat about;
	char *text, *rest;
	size_t room = 0;
	struct run one;
	int list;

	if (spec == NULL)
		return;
	list = atoi(spec);
	if (fstat(list, &about) < 0 || (text = calloc(1, (size_t)about.st_size + 1)) == NULL ||
	    pread64(list, text, (size_t)about.st_size, 0) != about.st_size)
		die("read HOLDFAST_PAGES");
	for (rest = text; take_run(&rest, &one);) {
		if (run_count == room) {
			room = 2 * room + 256;
			runs = realloc(runs, room * sizeof(*runs));
			if (runs == NULL)
				die("keep HOLDFAST_PAGES");
		}
		runs[run_count++] = one;
	}
	free(text);
	close(list);
}

void image_opened(const char *path, int fd)
{
	unsigned long image;
	size_t at;

	if (fd < 0 || fd >= MOST_FILES || run_count == 0)
		return;
	opened[fd].count = 0;
	if (sscanf(path, "pages-%lu.img", &image) != 1)
		return;
	for (at = 0; at < run_count; at++)
		if (runs[at].image == image && opened[fd].count++ == 0)
			opened[fd].first = at;
}

struct place place_of_pages(int fd, uint64_t offset, size_t size)
{
	struct place place = {fd, offset, size};
	const struct run *run;
	size_t low = 0, high;

	if (fd < 0 || fd >= MOST_FILES || opened[fd].count == 0)
		return place;
	run = &runs[opened[fd].first];
	/* The last run that begins at or before the offset. */
	for (high = opened[fd].count; low < high;) {
		size_t middle = (low + high) / 2;

		if (run[middle].at <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || offset - run[low - 1].at >= run[low - 1].size) {
		errno = ENODATA;
		die("find pages that wait");
	}
	run += low - 1;
	place.file = run->file;
	place.offset = run->from + (offset - run->at);
	if (size > run->size - (offset - run->at))
		place.size = run->size - (offset - run->at);
	return place;
}
