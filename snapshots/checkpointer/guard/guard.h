/* What the parts of the preloaded library know of each other. */
#ifndef HOLDFAST_GUARD_H
#define HOLDFAST_GUARD_H

#include <linux/userfaultfd.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/types.h>

typedef long ptrace_call(enum __ptrace_request, ...);

/* PTRACE_GETREGSET and PTRACE_SETREGSET, by the C library's ptrace(2): interrupted calls continue. */
long ptrace_registers(ptrace_call *libc, enum __ptrace_request request, pid_t task, void *kind, void *data);

/* Where to read or write what CRIU reads or writes at `address` of a task: see guard_code.c. */
void *place_of_calls(ptrace_call *libc, enum __ptrace_request request, pid_t task, void *address, const void *data);

/* Correct the registers with which CRIU lets a task continue, if they are those of a call of its own. */
void move_to_calls(pid_t task, void *state);

/* With what CRIU ends when the guard ends it. */
enum {
	EXIT_NOT_BEGUN = 96,	/* the checkpointer does not let it begin */
	EXIT_CANNOT = 97,	/* see die */
	EXIT_NOT_WANTED = 98,	/* the host does not want the restored tree, which is killed */
};

/* The ground (guard_control.c). Ask the checkpointer by this descriptor from now on. */
void take_control(int descriptor);

/* End this process, saying what cannot be done, and errno. */
void die(const char *what) __attribute__((noreturn));

/* Ask the checkpointer something, and wait for its answer: 'y', or anything else for no. */
char ask(const char *question);

/* This is a capture. */
void note_capture(void);

/* Is this a capture? */
int is_capture(void);

/* Note the freezer of the container that is captured; NULL: nothing is frozen. */
void read_freezer(const char *spec);

/* Is the container frozen, and not yet seized? */
int freezes(void);

/* Whether a call to seize or interrupt a thread is done already; the first one seizes the whole container. */
int was_seized(ptrace_call *libc, enum __ptrace_request request, pid_t thread);

/* Let the container's first process go, which CRIU would wait for when it has ended the others. */
void release_first_process(void);

/* Have the tasks that CRIU restores end with it until they have been judged. */
void kill_unjudged(void);

/* What to give ptrace(2) as `data` so that a task that CRIU seizes ends with it. */
void *with_mark(ptrace_call *libc, enum __ptrace_request request, pid_t task, void *data);

/* The restored tree may run; nothing of it ends with CRIU any more. */
void tree_was_judged(void);

/* Did a task that was to be let go end because others of the tree ran already? */
int was_killed_early(enum __ptrace_request request, int error);

/* Note what is to be left out of a capture; NULL: nothing is captured. */
void read_substitutions(const char *spec);

/* An open fdinfo of what takes the place of the descriptor that `path` ("fdinfo/N" below a process's
 * folder `directory`) names; -1 if that is kept.
 */
int substituted_fdinfo(int directory, const char *path, int flags);

/* Make the terminals that come back, in the session's mount namespace; NULL: nothing is restored. */
void make_terminals(const char *spec);

/* A descriptor of the master of the terminal that `path` stands for; -1 if it stands for none. */
int made_terminal(int directory, const char *path, int flags);

/* Was something in a terminal that copies will not have? */
int queue_was_lost(void);

/* The same as `info`, an open fdinfo, but for the count of a semaphore: see guard_counters.c. */
int marked_counter(int info);

/* The same as `info`, an open fdinfo of descriptor `path` ("fdinfo/N") below a process's folder, but for the flags of
 * an inotify with unread events: see guard_unread.c.
 */
int marked_watcher(int info, int directory, const char *path);

/* Note where the list of those without unread events is; NULL: there is none. */
void read_watchers(const char *spec);

/* The process whose folder in /proc is open; -1: of none. */
pid_t process_of(int directory);

/* Note the names that files of sockets are to have; NULL: none. */
void read_socket_names(const char *spec);

/* Note which layers to search for what is watched; NULL: none. */
void read_layers(const char *spec);

/* open_by_handle_at(2), also for what is watched on overlayfs. */
long open_handle(int mount, void *handle, int flags);

/* Read what an open fdinfo of CRIU's own tells of watches. */
void note_watches(int info);

/* CRIU will open the watched file by the name it has, and ask for its inode number: see guard_inodes.c. */
void expect_file(int fd, const unsigned char *handle, unsigned size);

/* CRIU opened something by its name only. */
void file_opened(const char *path, int fd);

/* The flags to open `path` with, so that no more is an event than must be. */
int quiet_flags(int directory, const char *path, int flags);

/* A mapped file, opened by name only; -1 if it is to be opened as CRIU wants it. */
int open_mapped(int directory, const char *path, int flags);

/* Which queue of the connection CRIU reads now, TCP_SEND_QUEUE or TCP_RECV_QUEUE; TCP_NO_QUEUE: it does not. */
int queue_being_read(int fd);

/* CRIU begins to write what it has read of a connection. */
void connection_was_read(void);

/* Have connections closed in silence when the tasks end, as CRIU wants it. */
void repair_again(void);

/* Note the processes that were adopted out of their session; NULL: none. */
void read_births(const char *spec);

/* Whether clone3(2) is done already, because it was called for one of those; `made` is its result. */
int makes_adopted(const void *arguments, size_t size, long *made);

/* Note the processes that had a personality; NULL: none. */
void read_personalities(const char *spec);

/* In a restored process: take the one it had. */
void take_personality(void);

/* Memory of a process that CRIU is not shown. `code`: where it has executable memory; `wishes`: what its process is
 * to get, the same for all of its heaps. */
struct heap {
	pid_t pid;
	unsigned long code, start, end, wishes;
};

/* A twin; to have it noted from now on which pages of its heaps are written. */
enum { WANTS_TWIN = 1, WANTS_TRACKING = 2 };

/* Note where the list of heaps is; NULL: there is none. */
void read_heaps(const char *spec);

/* The descriptor of that list; -1: there is none. */
int heap_list(void);

/* A heap by its number; NULL behind the last one. */
const struct heap *heap_at(size_t number);

/* CRIU has opened "pagemap" of the process whose folder is `directory`. */
void pagemap_opened(int directory, int fd);

/* Note where the list of pages is that are in several images; NULL: there is none. */
void read_pages(const char *spec);

/* CRIU has opened an image of this name. */
void image_opened(const char *path, int fd);

/* Where to read what CRIU reads of an image, and how much of it at once. */
struct place {
	int file;
	uint64_t offset;
	size_t size;
};
struct place place_of_pages(int fd, uint64_t offset, size_t size);

/* struct pm_scan_arg of linux/fs.h since 6.7: `room`: how many `regions` there is room for. */
struct page_scan {
	uint64_t size, flags, start, end, walk_end, regions, room, most, inverted, mask, any, wanted;
};
enum { REGION_BYTES = 24 };
#define PAGE_SCAN _IOWR('f', 16, struct page_scan)

/* ioctl(2) with PAGE_SCAN, without the pages of heaps. */
long scan_pages(int fd, struct page_scan *asked);

/* Make a twin of each process whose heaps are to have one, and see to it that writes are noted where they are to be;
 * 0: one may not be what it was. */
int make_twins(void);

/* Note where to wait for the wish to load everything, which processes miss memory, and for how many milliseconds
 * at most; without the first: load it at once; without the last: until then. */
void read_load(const char *descriptor, const char *pids, const char *after);

/* CRIU has received `size` bytes: the pid of a task whose descriptor comes next, or anything else. */
void number_received(const void *buffer, size_t size);

/* A range of memory that the kernel did not take from CRIU; keeps errno. */
void not_answered(int memory, unsigned long long start, unsigned long long length);

/* Note where the session's processes are listed; NULL: no memory is served. */
void read_processes(const char *descriptor);

/* Have a process say which of its threads touches memory that is missing. */
void ask_for_threads(struct uffdio_api *asked);

/* The process of this number, as the images have it, is served by this descriptor. */
void memory_announced(int memory, int pid);

/* CRIU has read this of a descriptor that serves memory; before it is shown that. */
void memory_reported(int memory, const struct uffd_msg *message);

/* CRIU watches a descriptor from now on, and knows it by `data`. */
void memory_watched(int memory, epoll_data_t data);

/* CRIU watches it no more. */
void memory_forgotten(int memory);

/* What CRIU is to read next: memory that is hidden from a child. The number of events; 0: none. */
int hidden_events(struct epoll_event *events, int most);

/* Whether `message` is what CRIU reads of that descriptor now. */
int hidden_message(int memory, void *message);

#endif
