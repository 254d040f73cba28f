/* SPDX-FileCopyrightText: the Cordee contributors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Usage: predict NET SAMPLES THREADS
 *
 * Prints the shape and the logits of SAMPLES images, whose i-th byte is 97 i, or the error. A
 * program in C, as those that deploy are. */
#include <cordee_infer.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(void) {
  printf("error: %s\n", cordee_infer_error());
  return 3;
}

int main(int argc, char** argv) {
  cordee_infer_network* net;
  uint8_t* images;
  int32_t* logits;
  float* reals;
  size_t i, samples, pixels, classes;
  if (argc != 4 || cordee_infer_abi() != CORDEE_INFER_ABI) return 2;
  net = cordee_infer_open(argv[1], atoi(argv[3]));
  if (net == NULL) return fail();
  samples = (size_t)atoi(argv[2]);
  classes = (size_t)cordee_infer_classes(net);
  pixels = (size_t)cordee_infer_channels(net) * (size_t)cordee_infer_height(net) *
           (size_t)cordee_infer_width(net);
  printf("%d %d %d %d\n", cordee_infer_channels(net), cordee_infer_height(net),
         cordee_infer_width(net), cordee_infer_classes(net));
  images = malloc(samples * pixels + 1);
  logits = malloc(samples * classes * sizeof *logits + 1);
  reals = malloc(samples * classes * sizeof *reals + 1);
  if (images == NULL || logits == NULL || reals == NULL) return 2;
  for (i = 0; i < samples * pixels; ++i) images[i] = (uint8_t)(97 * i);
  if (cordee_infer_predict(net, samples, images, logits) != 0) return fail();
  if (cordee_infer_predict_float(net, samples, images, reals) != 0) return fail();
  for (i = 0; i < samples * classes; ++i) {
    printf("%d\n", (int)logits[i]);
    if (reals[i] != (float)(logits[i] * cordee_infer_logit_step(net))) return 4;
  }
  /* Arguments without sense are errors. */
  if (cordee_infer_predict(NULL, 1, images, logits) == 0) return 5;
  if (cordee_infer_predict(net, 1, NULL, logits) == 0) return 5;
  if (cordee_infer_predict(net, (size_t)-1, images, logits) == 0) return 5;
  if (cordee_infer_open(NULL, 1) != NULL || cordee_infer_open(argv[1], -1) != NULL) return 5;
  if (cordee_infer_error()[0] == '\0') return 5;
  cordee_infer_close(net);
  cordee_infer_close(NULL);
  free(images);
  free(logits);
  free(reals);
  return 0;
}
