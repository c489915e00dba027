-- SPDX-License-Identifier: MIT
--- The lines of the documents' checklists, tables of pitfalls and of troubles (F38, F126, F220,
--- F226, F229), each with the finding that it is evaluated by. What the design says of errors in
--- them holds: an overflow wants a smaller scale of the loss, not a larger one.

local M = {}

--- By source: lists of { text, finding }.
M.SOURCES = {
  { name = '000 starting order', lines = {
    { 'mixed precision', 'mixed_precision' },
    { 'compile', 'compile' },
    { 'optimize the batch size', 'batch_size' },
    { 'profile and identify bottlenecks', 'bottlenecks' },
    { 'apply advanced techniques as needed', 'recompute' },
  } },
  { name = '000 checklist', lines = {
    { 'mixed precision on a GPU', 'mixed_precision' },
    { 'gradient checkpointing above 500M parameters', 'recompute' },
    { 'compile models for production', 'compile' },
    { 'optimize the batch size for your hardware', 'batch_size' },
    { 'workers of the loader, as many as cores', 'loading' },
    { 'profile memory before optimization', 'memory' },
    { 'test quantization on your hardware', 'quantize' },
    { 'distributed training for several GPUs', 'several_devices' },
  } },
  { name = '000 pitfalls', lines = {
    { 'out of memory: batch too large', 'memory' },
    { 'slow training: the CPU is the bottleneck, more workers', 'loading' },
    { 'divergence: learning rate too high', 'divergence' },
    { 'noisy gradients: batch too small', 'noise' },
    { 'mixed precision nan: loss scaling; smaller, where it overflows', 'loss_scale' },
  } },
  { name = '001 troubles', lines = {
    { 'optimization not available', 'available' },
    { 'compilation fails: other modes', 'compile_fails' },
    { 'memory: more than 80 % of the system in use', 'system_memory' },
  } },
  { name = '002 memory', lines = {
    { 'gradient accumulation for large effective batches', 'accumulation' },
    { 'mixed precision (FP16)', 'mixed_precision' },
    { 'clear the cache periodically', 'cache' },
    { 'gradient checkpointing for very deep models', 'recompute' },
    { 'sizes that are multiples of 8', 'sizes' },
    { 'monitor memory during training', 'watched' },
    { 'batch size by available memory', 'splitting' },
    { 'memory-efficient data loading', 'loading_memory' },
  } },
  { name = '002 performance', lines = {
    { 'profile code to identify bottlenecks', 'bottlenecks' },
    { 'compilation for production', 'compile' },
    { 'CUDA graphs for repeated computations', 'device_graph' },
    { 'layer sizes for the hardware', 'sizes' },
    { 'efficient types (FP16, BF16)', 'mixed_precision' },
    { 'kernel fusion', 'fusion' },
    { 'fewer transfers between CPU and GPU', 'transfers' },
    { 'asynchronous operations', 'waiting' },
    { 'learning rate schedule', 'schedule' },
    { 'efficient optimizers (AdamW, Lion)', 'optimizer' },
  } },
  { name = '003 troubles', lines = {
    { 'out of memory: smaller batch', 'memory' },
    { 'out of memory: gradient accumulation', 'accumulation' },
    { 'out of memory: mixed precision', 'mixed_precision' },
    { 'slow training: mixed precision', 'mixed_precision' },
    { 'slow training: larger batch', 'batch_size' },
    { 'slow training: several GPUs', 'several_devices' },
    { 'poor cache hit rate: larger cache', 'result_cache' },
    { 'poor cache hit rate: inputs vary', 'result_cache' },
    { 'quantization costs accuracy: static', 'quantized_accuracy' },
    { 'quantization costs accuracy: more calibration batches', 'quantized_accuracy' },
    { 'quantization costs accuracy: FP16 instead', 'quantized_accuracy' },
  } },
  { name = '004 checklist', lines = {
    { 'profiled, bottlenecks identified', 'bottlenecks' },
    { 'batch size selected', 'batch_size' },
    { 'backend (CPU or GPU) appropriate', 'backend' },
    { 'hardware features on (SIMD, cuDNN)', 'hardware' },
    { 'pruning, quantization, distillation', 'smaller_net' },
    { 'operations fused', 'fusion' },
    { 'no unnecessary copies', 'copies' },
    { 'efficient data loading', 'loading' },
    { 'mixed precision on a GPU', 'mixed_precision' },
    { 'throughput and latency tested', 'throughput' },
  } },
}

--- The lines of a finding: "000 checklist 1, 002 memory 2".
---@param finding string
---@return string
function M.of(finding)
  local parts = {}
  for _, source in ipairs(M.SOURCES) do
    for i, line in ipairs(source.lines) do
      if line[2] == finding then parts[#parts + 1] = ('%s %d'):format(source.name, i) end
    end
  end
  return table.concat(parts, ', ')
end

return M
