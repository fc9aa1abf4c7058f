/* Stops all threads of a process as CRIU does, and has the guard make twins of it; goes on with each line it reads.
 *
 * Usage: stopping PID. Says "stopped", "made", "gone on".
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard.h"

static pid_t threads[256];
static int count;

pid_t process_of(int directory)
{
	(void)directory;
	return -1;
}

static int is_held(pid_t thread)
{
	for (int each = 0; each < count; each++)
		if (threads[each] == thread)
			return 1;
	return 0;
}

static void hold(pid_t thread)
{
	int status;

	if (is_held(thread) || ptrace(PTRACE_SEIZE, thread, NULL, (void *)PTRACE_O_SUSPEND_SECCOMP) < 0)
		return;
	if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0 && waitpid(thread, &status, __WALL) == thread &&
	    WIFSTOPPED(status))
		threads[count++] = thread;
}

static void hold_all(const char *pid)
{
	char path[64];
	int before;

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	do {
		DIR *folder = opendir(path);
		struct dirent *entry;

		before = count;
		while (folder != NULL && (entry = readdir(folder)) != NULL)
			if (entry->d_name[0] != '.')
				hold(atoi(entry->d_name));
		if (folder != NULL)
			closedir(folder);
	} while (count != before);
}

static void say(const char *word)
{
	char line[16];

	puts(word);
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) == NULL)
		_exit(1);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	read_heaps(getenv("HOLDFAST_HEAPS"));
	hold_all(argv[1]);
	say("stopped");
	pagemap_opened(-1, -1);
	say(make_twins() ? "made" : "failed");
	for (int each = 0; each < count; each++)
		ptrace(PTRACE_DETACH, threads[each], NULL, NULL);
	say("gone on");
	return 0;
}
