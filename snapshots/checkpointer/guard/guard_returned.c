/* Lets a copy give memory back while the rest of it is still loading.
 *
 * Programs and C libraries tell the kernel that they do not need some memory (madvise(2), MADV_DONTNEED), and unmap
 * it at once: whenever a thread or a big block of memory ends. CRIU serves memory on demand, and is notified of
 * the first. It then asks the kernel not to be asked for that range any more; but as soon as it has been notified, the
 * program continues, and there may be nothing left of the range, or something else in its place. The kernel then says
 * EINVAL (userfaultfd in fs/userfaultfd.c of Linux), CRIU took that for an end, and the session had lost what was
 * not loaded yet.
 *
 * Whatever is still there of the range is empty for CRIU: a request for it gets zeros, as after a success.
 *
 * What the kernel refuses to fill for now, CRIU leaves for later: see guard_waits.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/userfaultfd.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"

int ioctl(int fd, unsigned long request, ...)
{
	void *argument;
	va_list args;
	int result;

	va_start(args, request);
	argument = va_arg(args, void *);
	va_end(args);
	if (request == PAGE_SCAN)
		return (int)scan_pages(fd, argument);
	if (request == UFFDIO_API)
		ask_for_threads(argument);
	result = (int)syscall(SYS_ioctl, fd, request, argument);
	if (result < 0 && request == UFFDIO_COPY)
		not_answered(fd, ((struct uffdio_copy *)argument)->dst, ((struct uffdio_copy *)argument)->len);
	if (result < 0 && request == UFFDIO_ZEROPAGE)
		not_answered(fd, ((struct uffdio_zeropage *)argument)->range.start,
			     ((struct uffdio_zeropage *)argument)->range.len);
	if (result < 0 && request == UFFDIO_UNREGISTER && errno == EINVAL)
		return 0;
	return result;
}
