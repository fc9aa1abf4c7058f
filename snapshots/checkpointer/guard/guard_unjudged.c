/* Keeps restored tasks from running if CRIU ends before they have been judged.
 *
 * CRIU holds what it has restored in ptrace stops. The kernel lets go of a tracer's tasks when it ends, whatever
 * ended it: lack of memory in the session's control group, in which CRIU is, is enough. So every task is marked to
 * be killed with its tracer (PTRACE_O_EXITKILL, ptrace(2)) from the call that seizes it until the checkpointer
 * has said that the tree may run. From then on the first ones that run may end CRIU before it has let go of the
 * last: the marks are taken off while all tasks still stand. And they may kill those it still holds: a task that it
 * lets go of too late is no fault of the restore. Before it seizes them, CRIU's tasks wait for it in its own code and
 * are never woken by anything else.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>

#include "guard.h"

static int judging, judged;
static ptrace_call *libc_ptrace;
/* Every task that CRIU has seized, with the options it has asked for last. */
static struct marked {
	pid_t task;
	unsigned long options;
} *marked;
static size_t count;

void kill_unjudged(void)
{
	judging = 1;
}

static struct marked *known(pid_t task)
{
	size_t each;

	/* CRIU sets options right after it has seized. */
	for (each = count; each > 0; each--)
		if (marked[each - 1].task == task)
			return &marked[each - 1];
	return NULL;
}

static struct marked *added(pid_t task)
{
	if (count % 256 == 0 && (marked = realloc(marked, (count + 256) * sizeof(*marked))) == NULL)
		die("list restored tasks");
	marked[count].task = task;
	return &marked[count++];
}

void *with_mark(ptrace_call *libc, enum __ptrace_request request, pid_t task, void *data)
{
	struct marked *one;

	if (!judging || (request != PTRACE_SEIZE && request != PTRACE_SETOPTIONS))
		return data;
	libc_ptrace = libc;
	one = request == PTRACE_SETOPTIONS ? known(task) : NULL;
	if (one == NULL)
		one = added(task);
	one->options = (unsigned long)data;
	return (void *)((unsigned long)data | PTRACE_O_EXITKILL);
}

int was_killed_early(enum __ptrace_request request, int error)
{
	return judged && request == PTRACE_DETACH && error == ESRCH;
}

void tree_was_judged(void)
{
	size_t each;

	judging = 0;
	judged = 1;
	for (each = 0; each < count; each++)
		libc_ptrace(PTRACE_SETOPTIONS, marked[each].task, NULL, marked[each].options);
	free(marked);
	marked = NULL;
	count = 0;
}
