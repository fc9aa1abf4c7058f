/* Keeps from the children of a copy what their parents hide from them, while memory is loaded on demand.
 *
 * A child of fork(2) has none of the contents of mappings that are marked with MADV_WIPEONFORK (madvise(2)). CRIU gives
 * a child the list of all that its parent misses, though, and answers it with that. So CRIU is notified that a child has given
 * such memory back (MADV_DONTNEED), before it is served anything: the kernel then asks no more, and gives it zeros.
 *
 * What is marked is in /proc/PID/smaps of the parent, whose thread is on its way out of fork(2) when that is reported.
 * Marks that another thread sets or takes away meanwhile may count or not, as without a copy. Which process a descriptor
 * is of is known of restored ones, and of children from the first memory that they touch: they are reported with the
 * id of their thread, for which a restored process is made to ask (UFFD_FEATURE_THREAD_ID).
 *
 * HOLDFAST_PROCESSES is a descriptor of the session's /proc.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "guard.h"

static int processes = -1;
/* By the number of the descriptor: the process whose memory it is; or the thread that touched some last, less than
 * 0; 0: not known. */
static int *thread_of;
static size_t threads;
/* What is still to be said to CRIU, the last first. */
static struct hidden {
	int memory;
	int added;
	epoll_data_t data;
	struct uffd_msg message;
} *unsaid;
static size_t hidings, room;

void read_processes(const char *descriptor)
{
	struct statfs found;

	processes = descriptor ? atoi(descriptor) : -1;
	if (processes >= 0 && (fstatfs(processes, &found) < 0 || found.f_type != PROC_SUPER_MAGIC))
		processes = -1;
}

void ask_for_threads(struct uffdio_api *asked)
{
	if (asked->features & UFFD_FEATURE_EVENT_FORK)
		asked->features |= UFFD_FEATURE_THREAD_ID;
}

static void note_thread(int memory, int thread)
{
	if (memory < 0)
		return;
	if ((size_t)memory >= threads) {
		size_t more = (size_t)memory + 64;

		thread_of = realloc(thread_of, more * sizeof(*thread_of));
		if (thread_of == NULL)
			die("note whose memory is served");
		memset(thread_of + threads, 0, (more - threads) * sizeof(*thread_of));
		threads = more;
	}
	thread_of[memory] = thread;
}

static void hide(int memory, unsigned long start, unsigned long end)
{
	struct hidden *one;

	if (hidings == room) {
		room = 2 * room + 16;
		unsaid = realloc(unsaid, room * sizeof(*unsaid));
		if (unsaid == NULL)
			die("note memory that is hidden");
	}
	one = &unsaid[hidings++];
	memset(one, 0, sizeof(*one));
	one->memory = memory;
	one->message.event = UFFD_EVENT_REMOVE;
	one->message.arg.remove.start = start;
	one->message.arg.remove.end = end;
}

/* Hide from a child what is marked in the process of a thread, of the memory that may still be missing ("um"). */
static void hide_marked(int thread, int child)
{
	unsigned long start = 0, end = 0, first, last;
	char path[32], line[512];
	int file, begins = 1;
	FILE *mappings;

	snprintf(path, sizeof(path), "%d/smaps", thread);
	file = openat(processes, path, O_RDONLY | O_CLOEXEC);
	mappings = file >= 0 ? fdopen(file, "r") : NULL;
	if (mappings == NULL) {
		if (file >= 0)
			close(file);
		return;
	}
	while (fgets(line, sizeof(line), mappings) != NULL) {
		/* The name of a file may be longer than a line. */
		if (begins && sscanf(line, "%lx-%lx ", &first, &last) == 2) {
			start = first;
			end = last;
		} else if (begins && strncmp(line, "VmFlags:", 8) == 0) {
			if (strstr(line, " wf") != NULL && strstr(line, " um") != NULL)
				hide(child, start, end);
		}
		begins = strchr(line, '\n') != NULL;
	}
	fclose(mappings);
}

void memory_announced(int memory, int pid)
{
	if (processes >= 0)
		note_thread(memory, pid);
}

void memory_reported(int memory, const struct uffd_msg *message)
{
	int known;

	if (processes < 0)
		return;
	known = memory >= 0 && (size_t)memory < threads ? thread_of[memory] : 0;
	if (message->event == UFFD_EVENT_PAGEFAULT && message->arg.pagefault.feat.ptid != 0 && known <= 0)
		note_thread(memory, -(int)message->arg.pagefault.feat.ptid);
	if (message->event == UFFD_EVENT_FORK) {
		int child = (int)message->arg.fork.ufd;

		memory_forgotten(child); /* the number was that of another one */
		note_thread(child, 0);
		if (known != 0)
			hide_marked(abs(known), child);
	}
}

void memory_watched(int memory, epoll_data_t data)
{
	for (size_t number = 0; number < hidings; number++)
		if (unsaid[number].memory == memory) {
			unsaid[number].added = 1;
			unsaid[number].data = data;
		}
}

void memory_forgotten(int memory)
{
	size_t left = 0;

	for (size_t number = 0; number < hidings; number++)
		if (unsaid[number].memory != memory)
			unsaid[left++] = unsaid[number];
	hidings = left;
}

int hidden_events(struct epoll_event *events, int most)
{
	if (hidings == 0 || most < 1 || !unsaid[hidings - 1].added)
		return 0;
	events[0].events = EPOLLIN;
	events[0].data = unsaid[hidings - 1].data;
	return 1;
}

int hidden_message(int memory, void *message)
{
	if (hidings == 0 || unsaid[hidings - 1].memory != memory || !unsaid[hidings - 1].added)
		return 0;
	memcpy(message, &unsaid[--hidings].message, sizeof(struct uffd_msg));
	return 1;
}
