/* Runs code in executable memory that is shared, below all other code of the process, as PHP's compiler has it.
 *
 * One thread stands at the first byte of it, another calls a function in it and writes the sum into a file.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* jmp . */
static const unsigned char SPIN[] = { 0xeb, 0xfe };
/* mov $1, %eax; ret */
static const unsigned char ONE[] = { 0xb8, 1, 0, 0, 0, 0xc3 };
enum { ONE_AT = 64, SIZE = 1 << 16 };

static unsigned char *code;

static void *count(void *path)
{
	int (*one)(void) = (int (*)(void))(code + ONE_AT);
	char part[4096];
	long sum = 0;

	snprintf(part, sizeof(part), "%s.part", (char *)path);
	for (;;) {
		FILE *file = fopen(part, "w");

		sum += one();
		fprintf(file, "%ld\n", sum);
		fclose(file);
		rename(part, path);
		usleep(20000);
	}
}

int main(int argc, char **argv)
{
	pthread_t counter;

	code = mmap((void *)0x200000, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (argc != 2 || code == MAP_FAILED)
		return 1;
	memcpy(code, SPIN, sizeof(SPIN));
	memcpy(code + ONE_AT, ONE, sizeof(ONE));
	if (mprotect(code, SIZE, PROT_READ | PROT_EXEC) < 0 || pthread_create(&counter, NULL, count, argv[1]) != 0)
		return 1;
	((void (*)(void))code)();
	return 0;
}
