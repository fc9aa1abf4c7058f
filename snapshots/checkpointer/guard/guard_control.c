/* The ground of this library: what every other part of it needs, and what needs none of them.
 *
 * It ends CRIU, asks the checkpointer over the control socket, and knows whether this is a capture.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guard.h"

static int control_fd = -1;
static int capturing;

void take_control(int descriptor)
{
	control_fd = descriptor;
}

void die(const char *what)
{
	dprintf(2, "guard: cannot %s: %s\n", what, strerror(errno));
	_exit(EXIT_CANNOT);
}

char ask(const char *question)
{
	char verdict = 'n';

	if (control_fd >= 0 && dprintf(control_fd, "%s\n", question) > 0)
		while (read(control_fd, &verdict, 1) < 0 && errno == EINTR)
			;
	return verdict;
}

void note_capture(void)
{
	capturing = 1;
}

int is_capture(void)
{
	return capturing;
}
