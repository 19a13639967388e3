"""A test version of MLPerf Tiny's device code that parses commands, like its reference submissions.

Names, messages and the commands' meaning are from github.com/mlcommons/tiny
(``api/internally_implemented``); the text is written for the tests. The board has a semihosted
console.
"""

API = """\
#include <stdarg.h>
#include <stddef.h>
#define EE_MSG_TIMESTAMP "m-lap-us-%lu\\r\\n"
#define EE_MSG_TIMESTAMP_MODE "m-timestamp-mode-performance\\r\\n"
#define EE_CFG_ENERGY_MODE 0
void th_load_tensor();
void th_results();
void th_infer();
void th_timestamp(void);
void th_printf(const char *fmt, ...);
char th_getchar();
void th_serialport_initialize(void);
void th_timestamp_initialize(void);
void th_final_initialize(void);
void th_pre();
void th_post();
void th_command_ready(char volatile *msg);
int th_strncmp(const char *str1, const char *str2, size_t n);
char *th_strncpy(char *dest, const char *src, size_t n);
size_t th_strnlen(const char *str, size_t maxlen);
char *th_strcat(char *dest, const char *src);
char *th_strtok(char *str1, const char *sep);
int th_atoi(const char *str);
void *th_memset(void *b, int c, size_t len);
void *th_memcpy(void *dst, const void *src, size_t n);
int th_vprintf(const char *format, va_list ap);
"""

INTERNAL = """\
#include <stddef.h>
#include <stdint.h>
void ee_serial_command_parser_callback(char *command);
size_t ee_get_buffer(uint8_t *buffer, size_t max_len);
"""

DEVICE = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internally_implemented.h"
#include "api/submitter_implemented.h"
#include "mlperf_board.h"

static uint8_t loaded[4096];
static size_t wanted, count;

size_t ee_get_buffer(uint8_t *buffer, size_t max_len)
{
    const size_t bytes = max_len < count ? max_len : count;
    memcpy(buffer, loaded, bytes);
    return bytes;
}

static void load(const char *word)
{
    for (; word[0] && word[1]; word += 2) {
        const char digits[3] = {word[0], word[1], 0};
        loaded[count++] = (uint8_t)strtol(digits, NULL, 16);
        if (count == wanted) {
            th_printf("m-load-done\\r\\n");
        }
    }
}

static void infer(long number, long warmups)
{
    th_load_tensor();
    th_printf("m-warmup-start-%ld\\r\\n", warmups);
    while (warmups-- > 0) {
        th_infer();
    }
    th_printf("m-warmup-done\\r\\nm-infer-start-%ld\\r\\n", number);
    th_timestamp();
    th_pre();
    while (number-- > 0) {
        th_infer();
    }
    th_post();
    th_timestamp();
    th_printf("m-infer-done\\r\\n");
    th_results();
}

void ee_serial_command_parser_callback(char *command)
{
    const char *word = th_strtok(command, " ");
    if (word == NULL) {
    } else if (strcmp(word, "name") == 0) {
        th_printf("m-name-%s-[%s]\\r\\n", "dut", "unspecified");
    } else if (strcmp(word, "timestamp") == 0) {
        th_timestamp();
    } else if (strcmp(word, "infer") == 0) {
        const char *number = th_strtok(NULL, " "), *warmups = th_strtok(NULL, " ");
        infer(th_atoi(number), th_atoi(warmups));
    } else if (strcmp(word, "results") == 0) {
        th_results();
    } else if (strcmp(word, "db") == 0) {
        word = th_strtok(NULL, " ");
        if (strcmp(word, "load") == 0) {
            wanted = (size_t)th_atoi(th_strtok(NULL, " "));
            count = 0;
            th_printf("m-[Expecting %d bytes]\\r\\n", (int)wanted);
        } else {
            load(word);
        }
    } else {
        th_printf("e-[Unknown command: %s]\\r\\n", word);
    }
    th_printf("m-ready\\r\\n");
}

void mlperf_board_initialize(void) {}
void mlperf_board_set_pin(int) {}

void mlperf_board_write(const char *text, size_t bytes)
{
    fwrite(text, 1, bytes, stdout);
}

char mlperf_board_read(void)
{
    const int c = getchar();
    if (c == EOF) {
        fflush(stdout);
        exit(0);
    }
    return (char)c;
}

unsigned long mlperf_board_microseconds(void)
{
    static unsigned long calls;
    return 1000 * ++calls;
}

int main()
{
    static char command[81];
    size_t at = 0;
    th_serialport_initialize();
    th_timestamp_initialize();
    th_final_initialize();
    th_printf("m-init-done\\r\\nm-ready\\r\\n");
    for (;;) {
        const char c = th_getchar();
        if (c == '%') {
            command[at] = 0;
            at = 0;
            th_command_ready(command);
        } else if (at < 80) {
            command[at++] = c;
        }
    }
}
"""


def write_load_commands(sample: bytes) -> str:
    """Return the commands that load a sample, as the runner sends them: 31 bytes each."""
    parts = [sample[i : i + 31].hex() for i in range(0, len(sample), 31)]
    return "".join([f"db load {len(sample)}%", *(f"db {part}%" for part in parts)])
