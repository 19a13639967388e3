const char* ei_classifier_inferencing_categories[] = { "circle", "idle" };
