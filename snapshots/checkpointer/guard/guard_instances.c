/* Has each inotify of CRIU counted for a user that nothing else is.
 *
 * The kernel limits the instances of a user, and the watches in them (inotify(7), fs.inotify.max_user_*). Root in all
 * sessions, CRIU and root on the host are one user: a session that has all of them would keep others from being
 * captured, since CRIU makes one to learn what the kernel can do, and from being restored if they watch files.
 *
 * What counts is the effective user of the thread that makes the instance. A number is drawn for each: no session can
 * use up what that one may have.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "guard.h"

enum { FIRST = 1 << 30 };

/* This thread's alone: the C library would have all threads follow. */
static int act_as(uid_t user)
{
	return (int)syscall(SYS_setresuid, (uid_t)-1, user, (uid_t)-1);
}

static int counted_apart(int flags)
{
	uid_t own = geteuid(), drawn;
	int made, error, ends_by = 0, dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);

	prctl(PR_GET_PDEATHSIG, &ends_by, 0, 0, 0);
	if (getrandom(&drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn) || act_as(FIRST | (drawn & (FIRST - 1))) < 0)
		return (int)syscall(SYS_inotify_init1, flags);
	made = (int)syscall(SYS_inotify_init1, flags);
	error = errno;
	if (act_as(own) < 0)
		die("act as root again");
	/* Who changes users loses both (credentials(7), PR_SET_DUMPABLE in prctl(2)). */
	if (dumpable == 1)
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	if (ends_by != 0)
		prctl(PR_SET_PDEATHSIG, ends_by, 0, 0, 0);
	errno = error;
	return made;
}

int inotify_init(void)
{
	return counted_apart(0);
}

int inotify_init1(int flags)
{
	return counted_apart(flags);
}
