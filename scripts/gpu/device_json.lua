-- SPDX-License-Identifier: MIT
--- A device as cuDNN describes it, in cuDNN's own JSON: what tests/gpu plans graphs for.
--
--     ./ridge scripts/gpu/device_json.lua [--from FILE]
--
-- Of the GPU that is here; --from: of a description, which is read and said again.

local ffi = require 'ffi'
local ridge = require 'ridge'

local opt = ridge.args { { 'from', '', 'a description in a file' } }

ffi.cdef [[
int cudnnBackendCreateDescriptor(int type, void **out);
int cudnnBackendSetAttribute(void *d, int name, int type, int64_t n, const void *from);
int cudnnBackendGetAttribute(void *d, int name, int type, int64_t most, int64_t *n, void *into);
int cudnnBackendFinalize(void *d);
const char *cudnnGetErrorString(int status);
]]
-- cudnn_graph_v9.h
local DEVICEPROP, DEVICE_ID, JSON, CHAR, INT32 = 38, 2700, 2702, 24, 23
local MOST = 65536

local name = os.getenv 'RIDGE_CUDNN'
local ok, dnn = pcall(ffi.load, name and name:find '/' and name or 'libcudnn.so.9')
if not ok then
  print('skip: there is no cuDNN: ' .. tostring(dnn))
  os.exit(77)
end

local function try(status, what)
  if status == 0 then return end
  print(('%s: %s'):format(what, ffi.string(dnn.cudnnGetErrorString(status))))
  os.exit(1)
end

local slot = ffi.new 'void *[1]'
try(dnn.cudnnBackendCreateDescriptor(DEVICEPROP, slot), 'a description')
if opt.from ~= '' then
  local file = assert(io.open(opt.from))
  local text = file:read '*a'
  file:close()
  try(dnn.cudnnBackendSetAttribute(slot[0], JSON, CHAR, #text, text), opt.from)
else
  try(dnn.cudnnBackendSetAttribute(slot[0], DEVICE_ID, INT32, 1, ffi.new('int32_t[1]', 0)),
    'cuda:0')
end
try(dnn.cudnnBackendFinalize(slot[0]), 'the description')
local text, n = ffi.new('char[?]', MOST), ffi.new 'int64_t[1]'
try(dnn.cudnnBackendGetAttribute(slot[0], JSON, CHAR, MOST, n, text), 'its JSON')
print((ffi.string(text, n[0]):gsub('%z+$', '')))
