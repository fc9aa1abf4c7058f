/* Stopped jobs.
 *
 * A job in the background that reads or sets its terminal is stopped by SIGTTIN or SIGTTOU. CRIU knows only the
 * other two stop signals; to it such a job is one that was stopped by SIGSTOP, and it is that in a copy.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ptrace.h>
#include <sys/types.h>

#include "guard.h"

long ptrace(enum __ptrace_request request, ...)
{
	static ptrace_call *libc_ptrace;
	siginfo_t *info;
	void *address, *data;
	va_list args;
	long result;
	pid_t pid;

	va_start(args, request);
	pid = va_arg(args, pid_t);
	address = va_arg(args, void *);
	data = va_arg(args, void *);
	va_end(args);
	if (libc_ptrace == NULL)
		*(void **)&libc_ptrace = dlsym(RTLD_NEXT, "ptrace");
	if (request == PTRACE_GETREGSET || request == PTRACE_SETREGSET)
		return ptrace_registers(libc_ptrace, request, pid, address, data);
	if (was_seized(libc_ptrace, request, pid))
		return 0;
	address = place_of_calls(libc_ptrace, request, pid, address, data);
	result = libc_ptrace(request, pid, address, with_mark(libc_ptrace, request, pid, data));
	if (result < 0 && was_killed_early(request, errno))
		return 0;
	info = data;
	/* A group stop, as PTRACE_SEIZE reports it (ptrace(2)): the event is in the upper bytes of the code. */
	if (request == PTRACE_GETSIGINFO && result == 0 && info->si_code >> 8 == PTRACE_EVENT_STOP &&
	    (info->si_signo == SIGTTIN || info->si_signo == SIGTTOU)) {
		info->si_code += SIGSTOP - info->si_signo;
		info->si_signo = SIGSTOP;
	}
	return result;
}
