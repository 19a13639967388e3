/* A counted function whose part runs in a process that it starts. */
#include <sys/wait.h>
#include <unistd.h>

void part(void);
void counted(void);

__attribute__((noinline)) void part(void)
{
    __asm__ volatile("mov x9, #1000\n1: sub x9, x9, #1\ncbnz x9, 1b" ::: "x9");
}

__attribute__((noinline)) void counted(void)
{
    const pid_t child = fork();
    if (child == 0) {
        part();
        _exit(0);
    }
    part();
    (void)waitpid(child, 0, 0);
}

int main(void)
{
    counted();
    return 0;
}
