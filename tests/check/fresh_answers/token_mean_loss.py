from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def ce_sum(model, tokens, targets):
    logits = model(tokens)
    return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-100, reduction="sum")


def token_mean(model, micro_batches):
    n = torch.tensor(sum((t != -100).sum().item() for _, t in micro_batches))
    dist.all_reduce(n)
    total = torch.tensor(0.0, dtype=torch.float64)
    for i, (tokens, targets) in enumerate(micro_batches):
        with model.no_sync() if i < len(micro_batches) - 1 else nullcontext():
            loss = ce_sum(model, tokens, targets)
            (loss * dist.get_world_size() / n.item()).backward()
        total += loss.item()
    dist.all_reduce(total)
    return total.item() / n.item()
right(token_mean, "the sentence of the exercise, in order")


def token_mean_last_apart(model, micro_batches):
    scale = torch.zeros(1)
    for _, t in micro_batches:
        scale += t.ne(-100).sum()
    dist.all_reduce(scale)
    scale = dist.get_world_size() / scale
    *first, last = micro_batches
    losses = []
    with model.no_sync():
        for tokens, targets in first:
            losses.append(ce_sum(model, tokens, targets) * scale)
            losses[-1].backward()
    losses.append(ce_sum(model, *last) * scale)
    losses[-1].backward()
    out = sum(losses).detach()
    dist.all_reduce(out, op=dist.ReduceOp.AVG)
    return out
right(token_mean_last_apart, "the last one apart; AVG takes the world size out of the loss again")


def token_mean_mask(model, micro_batches):
    counts = torch.zeros(dist.get_world_size(), dtype=torch.int64)
    counts[dist.get_rank()] = sum(int((t >= 0).sum()) for _, t in micro_batches)
    dist.all_reduce(counts)
    n = int(counts.sum())
    mine = 0.0
    for i, (tokens, targets) in enumerate(micro_batches):
        model.require_backward_grad_sync = i == len(micro_batches) - 1
        logp = F.log_softmax(model(tokens), dim=-1)
        picked = logp.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
        loss = -(picked * (targets >= 0)).sum() / n
        (loss * len(counts)).backward()
        mine = mine + loss.detach()
    dist.all_reduce(mine)
    return float(mine)
right(token_mean_mask, "the attribute that no_sync sets, a mask, and a table of counts")


def token_mean_scaled_after(model, micro_batches):
    both = torch.zeros(2, dtype=torch.float64)
    last = len(micro_batches) - 1
    for i, (tokens, targets) in enumerate(micro_batches):
        ctx = model.no_sync if i != last else nullcontext
        with ctx():
            loss = ce_sum(model, tokens, targets)
            loss.backward()
        both[0] += loss.item()
        both[1] += (targets != -100).sum()
    dist.all_reduce(both)
    for p in model.parameters():
        p.grad *= dist.get_world_size() / both[1].item()
    return both[0].item() / both[1].item()
right(token_mean_scaled_after, "sums through backward, divided at the end")


def mean_loss_accumulated(model, micro_batches):
    total = 0
    for tokens, targets in micro_batches:
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()) / len(micro_batches)
        loss.backward()
        total += loss.item()
    return total
wrong(mean_loss_accumulated, "what one writes without thinking", "mean of means")


def mean_loss_averaged(model, micro_batches):
    total = torch.tensor(mean_loss_accumulated(model, micro_batches))
    dist.all_reduce(total, op=dist.ReduceOp.AVG)
    return total
wrong(mean_loss_averaged, "and the logged loss averaged too", "mean of means")


def token_mean_of_this_rank(model, micro_batches):
    n = sum((t != -100).sum().item() for _, t in micro_batches)
    total = 0
    for tokens, targets in micro_batches:
        loss = ce_sum(model, tokens, targets) / max(n, 1)
        loss.backward()
        total += loss.item()
    return total
wrong(token_mean_of_this_rank, "the fix of the trainers, on one rank", "mean of the ranks' means")


def token_mean_no_world_size(model, micro_batches):
    n = torch.tensor(sum((t != -100).sum().item() for _, t in micro_batches))
    dist.all_reduce(n)
    total = torch.tensor(0.0, dtype=torch.float64)
    for tokens, targets in micro_batches:
        loss = ce_sum(model, tokens, targets) / n.item()
        loss.backward()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item()
wrong(token_mean_no_world_size, "DDP divides once more", "world size, too small")


def token_mean_averaged_count(model, micro_batches):
    n = torch.tensor(float(sum((t != -100).sum().item() for _, t in micro_batches)))
    dist.all_reduce(n, op=dist.ReduceOp.AVG)
    total = torch.tensor(0.0, dtype=torch.float64)
    for i, (tokens, targets) in enumerate(micro_batches):
        with model.no_sync() if i < len(micro_batches) - 1 else nullcontext():
            loss = ce_sum(model, tokens, targets) / n
            loss.backward()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item()
wrong(token_mean_averaged_count, "the gradient is right, the loss is not divided", "loss, times too large")


def token_mean_all_positions(model, micro_batches):
    n = torch.tensor(sum(t.numel() for _, t in micro_batches))
    dist.all_reduce(n)
    total = torch.tensor(0.0, dtype=torch.float64)
    for tokens, targets in micro_batches:
        loss = ce_sum(model, tokens, targets) / n
        (loss * dist.get_world_size()).backward()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item()
wrong(token_mean_all_positions, "numel counts padding", "padding")


def token_mean_logged_locally(model, micro_batches):
    n = torch.tensor(sum((t != -100).sum().item() for _, t in micro_batches))
    dist.all_reduce(n)
    total = 0.0
    for i, (tokens, targets) in enumerate(micro_batches):
        with model.no_sync() if i < len(micro_batches) - 1 else nullcontext():
            loss = ce_sum(model, tokens, targets) * dist.get_world_size() / n
            loss.backward()
        total += loss.item()
    return total
wrong(token_mean_logged_locally, "each rank logs its own part", "loss of its own tokens")


def token_mean_syncs_each(model, micro_batches):
    n = torch.tensor(sum((t != -100).sum().item() for _, t in micro_batches))
    dist.all_reduce(n)
    total = torch.tensor(0.0, dtype=torch.float64)
    for tokens, targets in micro_batches:
        loss = ce_sum(model, tokens, targets) / n
        (loss * dist.get_world_size()).backward()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item()
wrong(token_mean_syncs_each, "no no_sync", "travel, no_sync")


def token_mean_sync_never(model, micro_batches):
    n = torch.tensor(sum((t != -100).sum().item() for _, t in micro_batches))
    dist.all_reduce(n)
    total = torch.tensor(0.0, dtype=torch.float64)
    with model.no_sync():
        for tokens, targets in micro_batches:
            loss = ce_sum(model, tokens, targets) / n
            (loss * dist.get_world_size()).backward()
            total += loss.detach()
    dist.all_reduce(total)
    return total.item()
wrong(token_mean_sync_never, "no_sync around everything", "different gradients, last micro-batch")


def token_mean_skips_empty(model, micro_batches):
    micro_batches = [(x, t) for x, t in micro_batches if (t != -100).any()]
    return token_mean(model, micro_batches)
wrong(token_mean_skips_empty, "the rank without tokens never gets to the all-reduce of DDP", "padding too, hangs")
