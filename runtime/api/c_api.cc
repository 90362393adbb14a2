#include "base/status.h"
#include "gimbal/gimbal.h"

extern "C" {
GIMBAL_EXPORT const char* gimbal_status_name(gimbal_status_t status) { return gimbal::code_name(status); }
}
