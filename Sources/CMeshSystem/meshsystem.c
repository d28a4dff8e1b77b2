#include "CMeshSystem.h"
