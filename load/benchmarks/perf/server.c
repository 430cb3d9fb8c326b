// mock OpenAI-compatible SSE server: single-threaded epoll, min-heap timers.
// URL: POST /v1/chat/completions?n=200&itl=20000&ttft=20000&mode=0&k=1
//  n    tokens per stream ; itl,ttft in us ; mode 0=spread(deadline chain from random phase)
//  1=burst (deadlines aligned to a global grid of itl) ; 2=flood (write k chunks per write until EAGAIN)
// A request without a query has that of the third argument: some clients drop it.
// Each chunk carries the CLOCK_MONOTONIC send time in delta.content "T<20 digits>".
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <poll.h>
static inline uint64_t now(void){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec*1000000000ull+t.tv_nsec;}
typedef struct {int fd; int active; int mode; int k; uint64_t dl; uint64_t itl; int left; int total; int heap; int role;
  char rb[65536]; int rn; char *pend; int pn, po;} conn;
static conn *conns[70000]; static conn *heap[70000]; static int hn;
static int spin=0; static int ep; static const char*defq="";
static uint64_t st_chunks, st_eagain, st_late_max, st_late_n, st_late_sum, st_reqs, st_writes;
static void hswap(int a,int b){conn*t=heap[a];heap[a]=heap[b];heap[b]=t;heap[a]->heap=a;heap[b]->heap=b;}
static void up(int i){while(i&&heap[(i-1)/2]->dl>heap[i]->dl){hswap(i,(i-1)/2);i=(i-1)/2;}}
static void down(int i){for(;;){int l=2*i+1,r=l+1,m=i;if(l<hn&&heap[l]->dl<heap[m]->dl)m=l;if(r<hn&&heap[r]->dl<heap[m]->dl)m=r;if(m==i)break;hswap(i,m);i=m;}}
static void hpush(conn*c){c->heap=hn;heap[hn++]=c;up(c->heap);}
static void hpop(conn*c){int i=c->heap;hn--;if(i!=hn){heap[i]=heap[hn];heap[i]->heap=i;up(i);down(i);}c->heap=-1;}
static char tmpl[512]; static int tlen, toff; static char role_[512]; static int rlen; static char fin[2048]; static int flen;
static char *blk; static int blk_k; 
static int mkchunk(char*o,const char*pl){int n=strlen(pl);int h=sprintf(o,"%x\r\n",n);memcpy(o+h,pl,n);memcpy(o+h+n,"\r\n",2);return h+n+2;}
static void mk(void){
 const char*pl="data: {\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1761000000,\"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"T01234567890123456789\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}\n\n";
 tlen=mkchunk(tmpl,pl);toff=strstr(tmpl,"\"T0123")-tmpl+2;
 rlen=mkchunk(role_,"data: {\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1761000000,\"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":null}\n\n");
 char*p=fin;p+=mkchunk(p,"data: {\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1761000000,\"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null}]}\n\n");
 p+=mkchunk(p,"data: {\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1761000000,\"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[],\"usage\":{\"prompt_tokens\":128,\"total_tokens\":328,\"completion_tokens\":200}}\n\n");
 p+=mkchunk(p,"data: [DONE]\n\n");memcpy(p,"0\r\n\r\n",5);p+=5;flen=p-fin;
 blk=malloc(tlen*1024);for(int i=0;i<1024;i++)memcpy(blk+i*tlen,tmpl,tlen);
}
static void stamp(char*b,uint64_t t){char*d=b+toff;for(int i=19;i>=0;i--){d[i]='0'+t%10;t/=10;}}
static void closec(conn*c){if(c->heap>=0)hpop(c);conns[c->fd]=0;close(c->fd);free(c->pend);free(c);}
static int wr(conn*c,const char*b,int n){ // returns 0 ok, 1 pending, -1 err
 if(c->pn){c->pend=realloc(c->pend,c->pn+n);memcpy(c->pend+c->pn,b,n);c->pn+=n;return 1;}
 st_writes++;int r=send(c->fd,b,n,MSG_NOSIGNAL|MSG_DONTWAIT);
 if(r==n)return 0; if(r<0){if(errno!=EAGAIN)return -1;r=0;}
 st_eagain++;c->pend=realloc(c->pend,n-r);memcpy(c->pend,b+r,n-r);c->pn=n-r;c->po=0;
 struct epoll_event e={.events=EPOLLIN|EPOLLOUT,.data.fd=c->fd};epoll_ctl(ep,EPOLL_CTL_MOD,c->fd,&e);return 1;}
static void finish(conn*c){c->active=0;wr(c,fin,flen);}
static void flood(conn*c){ while(c->left>0&&!c->pn){int k=c->left<c->k?c->left:c->k;st_chunks+=k;c->left-=k;
   int r=wr(c,blk,k*tlen);if(r<0){closec(c);return;} if(r)break;}
 if(c->left==0&&c->active)finish(c);}
static int qint(const char*s,const char*k,int d){const char*p=strstr(s,k);return p?atoi(p+strlen(k)):d;}
static uint64_t rs=88172645463325252ull;static uint64_t rnd(void){rs^=rs<<13;rs^=rs>>7;rs^=rs<<17;return rs;}
static void onreq(conn*c){ // rb contains full headers
 char*he=memmem(c->rb,c->rn,"\r\n\r\n",4);if(!he)return;*he=0;
 char*eol=strstr(c->rb,"\r\n");if(eol)*eol=0;
 char line[512];snprintf(line,sizeof line,"%s%s",c->rb,strchr(c->rb,'?')?"":defq);if(eol)*eol='\r';
 char*cl=strcasestr(c->rb,"content-length:");int bl=cl?atoi(cl+15):0;*he='\r';
 int need=(he-c->rb)+4+bl;if(c->rn<need)return;
 int stream=memmem(he+4,bl,"\"stream\":true",13)||memmem(he+4,bl,"\"stream\": true",14);
 memmove(c->rb,c->rb+need,c->rn-need);c->rn-=need;
 if(strncmp(line,"GET /stats",10)==0){char b[1024],o[1400];struct rusage ru;getrusage(RUSAGE_SELF,&ru);
   int n=sprintf(b,"{\"chunks\":%lu,\"writes\":%lu,\"eagain\":%lu,\"late_max_us\":%.1f,\"late_mean_us\":%.2f,\"reqs\":%lu,\"cpu_s\":%.4f}\n",st_chunks,st_writes,st_eagain,st_late_max/1e3,st_late_n?st_late_sum/1e3/st_late_n:0.,st_reqs,ru.ru_utime.tv_sec+ru.ru_utime.tv_usec/1e6+ru.ru_stime.tv_sec+ru.ru_stime.tv_usec/1e6);
   st_late_max=st_late_n=st_late_sum=0;st_eagain=0;
   int m=sprintf(o,"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",n,b);wr(c,o,m);return;}
 if(!stream){static const char*b="{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"a\"},\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"total_tokens\":2}}";
   char o[512];int m=snprintf(o,sizeof o,"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",strlen(b),b);wr(c,o,m);return;}
 st_reqs++;c->total=c->left=qint(line,"?n=",200);uint64_t itl=qint(line,"&itl=",20000)*1000ull,ttft=qint(line,"&ttft=",20000)*1000ull;
 c->mode=qint(line,"&mode=",0);c->k=qint(line,"&k=",1);if(c->k>1024)c->k=1024;c->itl=itl;c->active=1;c->role=0;
 static const char*h="HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2026 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
 wr(c,h,strlen(h));
 if(c->mode==2){wr(c,role_,rlen);if(!c->pn)flood(c);return;}
 uint64_t t=now();
 if(c->mode==3){c->dl=t+ttft;} else if(c->mode==1){c->dl=((t+ttft)/itl+1)*itl;} else c->dl=t+ttft+rnd()%(itl+1);
 hpush(c);}
static void tick(conn*c){uint64_t t=now();uint64_t late=t-c->dl;if(late>st_late_max)st_late_max=late;st_late_n++;st_late_sum+=late;
 char b[1200];int n=0;
 if(!c->role){c->role=1;memcpy(b,role_,rlen);n=rlen;}
 int k=c->k>3?3:c->k; for(int i=0;i<k&&c->left>0;i++){memcpy(b+n,tmpl,tlen);stamp(b+n,now());n+=tlen;c->left--;st_chunks++;}
 int r=wr(c,b,n);if(r<0){closec(c);return;}
 if(c->left==0){hpop(c);finish(c);return;}
 c->dl+=c->itl;down(c->heap);}
int main(int a,char**v){int port=a>1?atoi(v[1]):9100;spin=a>2?atoi(v[2]):0;defq=a>3?v[3]:"";signal(SIGPIPE,SIG_IGN);mk();
 struct rlimit rl={20000,20000};getrlimit(RLIMIT_NOFILE,&rl);rl.rlim_cur=rl.rlim_max;setrlimit(RLIMIT_NOFILE,&rl);
 int ls=socket(AF_INET,SOCK_STREAM|SOCK_NONBLOCK,0),one=1;setsockopt(ls,SOL_SOCKET,SO_REUSEADDR,&one,sizeof one);
 struct sockaddr_in sa={.sin_family=AF_INET,.sin_port=htons(port),.sin_addr.s_addr=htonl(INADDR_LOOPBACK)};
 if(bind(ls,(void*)&sa,sizeof sa)||listen(ls,4096)){perror("bind");return 1;}
 ep=epoll_create1(0);struct epoll_event e={.events=EPOLLIN,.data.fd=ls};epoll_ctl(ep,EPOLL_CTL_ADD,ls,&e);
 fprintf(stderr,"mockd port %d chunk %d bytes on wire\n",port,tlen);
 struct epoll_event ev[256];int since=0;
 for(;;){
  struct timespec to,*tp=0;uint64_t t=now();
  if(hn){int64_t d=(int64_t)(heap[0]->dl-t);if(d<0||spin)d=0;to.tv_sec=d/1000000000;to.tv_nsec=d%1000000000;tp=&to;}
  int n=0; if(!hn||tp->tv_nsec||tp->tv_sec||++since>=16){n=epoll_pwait2(ep,ev,256,tp,0);since=0;}
  for(int i=0;i<n;i++){int fd=ev[i].data.fd;
   if(fd==ls){for(;;){int c=accept4(ls,0,0,SOCK_NONBLOCK);if(c<0)break;setsockopt(c,IPPROTO_TCP,TCP_NODELAY,&one,sizeof one);
     conn*k=calloc(1,sizeof*k);k->fd=c;k->heap=-1;conns[c]=k;struct epoll_event x={.events=EPOLLIN,.data.fd=c};epoll_ctl(ep,EPOLL_CTL_ADD,c,&x);}continue;}
   conn*c=conns[fd];if(!c)continue;
   if(ev[i].events&(EPOLLHUP|EPOLLERR)){closec(c);continue;}
   if(ev[i].events&EPOLLOUT&&c->pn){int r=send(fd,c->pend+c->po,c->pn-c->po,MSG_NOSIGNAL|MSG_DONTWAIT);st_writes++;if(r<0&&errno!=EAGAIN){closec(c);continue;}
     if(r>0)c->po+=r;if(c->po==c->pn){c->pn=c->po=0;free(c->pend);c->pend=0;
       if(c->active&&c->mode==2){flood(c);c=conns[fd];}
       if(c&&!c->pn){struct epoll_event x={.events=EPOLLIN,.data.fd=fd};epoll_ctl(ep,EPOLL_CTL_MOD,fd,&x);}} if(!c)continue;}
   if(ev[i].events&EPOLLIN){int r=recv(fd,c->rb+c->rn,sizeof c->rb-1-c->rn,MSG_DONTWAIT);if(r==0||(r<0&&errno!=EAGAIN)){closec(c);continue;}
     if(r>0){c->rn+=r;c->rb[c->rn]=0;onreq(c);}}
  }
  t=now();int lim=64;while(hn&&heap[0]->dl<=t&&lim--){tick(heap[0]);}
 }}
