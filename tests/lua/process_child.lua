-- SPDX-License-Identifier: MIT
-- What the children of process_spec.lua run: answers lines until it is told to go.

local M = {}

function M.main(channel)
  while true do
    local line = channel:receive(60e9)
    if not line then os.exit(9) end
    if line == 'die' then error('as told', 0) end
    if line == 'end' then os.exit(5) end
    if line == 'long' then line = ('x'):rep(200000) end
    channel:send(('%s from %s'):format(line, os.getenv 'RIDGE_TEST_NAME'))
  end
end

return M
