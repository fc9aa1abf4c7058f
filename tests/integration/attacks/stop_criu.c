/* Sends a signal to every process called criu, until it is told to end. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char path[64], comm[32];
	struct dirent *entry;
	FILE *file;
	DIR *proc;

	(void)argc;
	while (access("/tmp/enough", F_OK) != 0) {
		proc = opendir("/proc");
		while ((entry = readdir(proc)) != NULL) {
			snprintf(path, sizeof(path), "/proc/%.20s/comm", entry->d_name);
			file = fopen(path, "r");
			if (file == NULL)
				continue;
			if (fgets(comm, sizeof(comm), file) != NULL && strcmp(comm, "criu\n") == 0 &&
			    kill(atoi(entry->d_name), atoi(argv[1])) == 0) {
				FILE *hit = fopen("/tmp/hit", "a");
				fputs("x", hit);
				fclose(hit);
			}
			fclose(file);
		}
		closedir(proc);
	}
	return 0;
}
