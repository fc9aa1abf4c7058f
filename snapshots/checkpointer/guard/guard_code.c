/* Where CRIU puts the calls that it has a task make.
 *
 * CRIU writes them over the first executable memory of a process (compel, get_exec_start), whatever that is. ptrace(2)
 * writes into memory that is not writable only where that makes a private copy: memory that is executable and shared,
 * as PHP maps it for the code of its compiler, is refused (EIO), and the capture would fail. So what CRIU reads and
 * writes there is read and written in executable memory that is private, and the task continues there while the
 * calls stand in it.
 *
 * A task that itself stands at the first byte of the area, or is called to it, stays there: its registers are then
 * those that it had, and not those of a call.
 *
 * Only where the registers are known: x86-64, tasks in 64-bit mode. Elsewhere the capture fails as before.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "guard.h"

/* What compel needs at most of an executable area (PARASITE_START_AREA_MIN), in bytes. */
enum { AREA = 4096 };
/* Its calls are this near to the start of the area. What else CRIU reads is data, hardly ever there. */
enum { CALLS = 64 };

#ifdef __x86_64__

typedef struct user_regs_struct registers;

/* The task that CRIU works on, where its calls are to be and are, and the registers that it had before. */
static struct moved {
	pid_t task;
	int is_moved, has_calls;
	unsigned long from, to, first;
	registers had;
} now;

/* The start of the first executable memory of a task that is private; 0: none, or `address` is not in shared one. */
static unsigned long private_code(pid_t task, unsigned long address)
{
	unsigned long start, end, found = 0;
	char path[64], line[512], rights[8], name[2];
	int is_shared = 0, fields;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", task);
	maps = fopen(path, "re");
	if (maps == NULL)
		return 0;
	while (fgets(line, sizeof(line), maps) != NULL) {
		fields = sscanf(line, "%lx-%lx %7s %*s %*s %*s %1s", &start, &end, rights, name);
		if (fields < 3 || strlen(rights) != 4)
			continue; /* the rest of a long name */
		if (address >= start && address < end)
			is_shared = rights[2] == 'x' && rights[3] == 's';
		else if (found == 0 && rights[2] == 'x' && rights[3] == 'p' && end - start >= AREA &&
			 (fields < 4 || name[0] != '['))
			found = start;
	}
	fclose(maps);
	return is_shared ? found : 0;
}

/* CRIU reads what it is about to write over, a word at a time, and not always the first one first. */
static void on_first_read(ptrace_call *libc, pid_t task, unsigned long address)
{
	struct iovec area = { &now.had, sizeof(now.had) };
	unsigned long word;

	memset(&now, 0, sizeof(now));
	now.task = task;
	now.from = address - address % AREA;
	errno = 0;
	word = (unsigned long)libc(PTRACE_PEEKDATA, task, (void *)address, NULL);
	if (errno != 0 || libc(PTRACE_POKEDATA, task, (void *)address, (void *)word) == 0 || errno != EIO)
		return;
	now.to = private_code(task, now.from);
	if (now.to == 0 || libc(PTRACE_GETREGSET, task, (void *)NT_PRSTATUS, &area) < 0 ||
	    area.iov_len != sizeof(now.had))
		return;
	errno = 0;
	now.first = (unsigned long)libc(PTRACE_PEEKDATA, task, (void *)now.to, NULL);
	now.is_moved = errno == 0;
}

static int is_in_area(pid_t task, unsigned long address)
{
	return task == now.task && address >= now.from && address - now.from < AREA;
}

void *place_of_calls(ptrace_call *libc, enum __ptrace_request request, pid_t task, void *address, const void *data)
{
	unsigned long at = (unsigned long)address;

	if (!is_capture() || (request != PTRACE_PEEKDATA && request != PTRACE_POKEDATA))
		return address;
	if (request == PTRACE_PEEKDATA && !is_in_area(task, at) && at % AREA < CALLS)
		on_first_read(libc, task, at);
	if (!now.is_moved || !is_in_area(task, at))
		return address;
	if (request == PTRACE_POKEDATA && at == now.from)
		now.has_calls = (unsigned long)data != now.first;
	return (void *)(now.to + (at - now.from));
}

void move_to_calls(pid_t task, void *state)
{
	registers *to = state;

	if (now.is_moved && now.has_calls && task == now.task && to->rip == now.from &&
	    memcmp(to, &now.had, sizeof(*to)) != 0)
		to->rip = now.to;
}

#else

void *place_of_calls(ptrace_call *libc, enum __ptrace_request request, pid_t task, void *address, const void *data)
{
	(void)libc, (void)request, (void)task, (void)data;
	return address;
}

#endif
